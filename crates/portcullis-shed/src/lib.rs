//! Load shedding: a layer that rejects requests because the service is overloaded, not because a client is over its quota. See
//! `ShedLayer`.
//!
//! # Features
//!
//! `layer`, on by default, is the layer. Without it the crate is the arithmetic of the limit, without a clock and without HTTP. `axum` and
//! `tonic` apply `ShedLayer::body_rate` to their bodies. `tonic` lets a layer wrap a single Tonic service.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "layer")]
mod body;
#[cfg(feature = "layer")]
mod config;
#[cfg(feature = "layer")]
mod error;
#[cfg(feature = "layer")]
mod future;
#[cfg(feature = "layer")]
mod layer;
mod limit;
#[cfg(feature = "layer")]
mod service;
#[cfg(feature = "layer")]
mod shared;

#[cfg(feature = "layer")]
pub use body::ShedBody;
#[cfg(feature = "layer")]
pub use config::ShedPermit;
#[cfg(feature = "layer")]
pub use error::ShedError;
#[cfg(feature = "layer")]
pub use future::ShedFuture;
#[cfg(feature = "layer")]
pub use layer::{ShedLayer, ShedSettings};
pub use portcullis_engine::Class;
#[cfg(feature = "layer")]
pub use service::Shed;

/// The arithmetic of the limit, for programs that simulate it. It may change with any version.
pub mod internal {
    pub use crate::limit::{AdaptiveLimit, End, Estimator, Sample, Tolerance, WHOLE, most, share};
}

/// The largest limit on requests in flight.
#[cfg(feature = "layer")]
const MAX_LIMIT: usize = 1_000_000;
