//! Responses of the layers of [Portcullis](https://docs.rs/portcullis): rejections in HTTP and gRPC, and the headers that show clients
//! their budget.
//!
//! A door has [`ResponseSettings`](internal::ResponseSettings), which render a [`Rejection`], and write the headers of a request that is
//! admitted.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bodies;
mod fields;
mod format;
pub mod headers;
#[cfg(feature = "openapi")]
mod openapi;
mod rejection;
mod settings;
mod spread;

pub use bodies::{GrpcCode, GrpcRejection};
pub use fields::{HeaderRenameError, RateLimitHeaders};
pub use format::RejectionFormat;
pub use rejection::{Rejection, RejectionResponse};

/// What the layers of the workspace render responses by. It is public because they are other crates, and may change with any version.
pub mod internal {
    pub use crate::bodies::CustomGrpc;
    pub use crate::fields::{
        Fraction, HeaderRenames, Individual, ShownPolicy, SoftLimits, names_of_policies,
    };
    pub use crate::headers::{GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS, GRPC_STATUS_DETAILS};
    pub use crate::rejection::Cause;
    pub use crate::settings::{CustomResponse, ResponseSettings, is_grpc};
    pub use crate::spread::RetrySpread;
}
