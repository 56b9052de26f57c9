//! The messages of Envoy's rate limit service, and of that of reservations.
//!
//! They are generated from the files in `proto`, which have of Envoy's what the service needs, under its names and numbers, without
//! the options of validation. After a change of them: `cargo run --manifest-path crates/portcullis-rls/generate/Cargo.toml`.
//!
//! Source: <https://github.com/envoyproxy/data-plane-api>, <https://github.com/Kuadrant/limitador>.

mod codec;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated code")]
mod generated {
    include!("../generated/mod.rs");
}

pub use generated::envoy::config::core::v3::HeaderValue;
pub use generated::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
pub use generated::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_response, rate_limit_service_server,
};
pub use generated::envoy::r#type::v3::RateLimitUnit;
pub use generated::kuadrant::service::ratelimit::v1::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
    rate_limit_service_server as reservation_service_server,
};

/// The `.proto` files of the service, from which clients are generated: their paths, by which they import each other, and their texts.
/// `portcullis proto` writes them. They import files of `google/protobuf`, which every compiler of protobuf has.
pub const PROTO_FILES: [(&str, &str); 5] = [
    ("envoy/config/core/v3/base.proto", include_str!("../proto/envoy/config/core/v3/base.proto")),
    (
        "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
        include_str!("../proto/envoy/extensions/common/ratelimit/v3/ratelimit.proto"),
    ),
    ("envoy/service/ratelimit/v3/rls.proto", include_str!("../proto/envoy/service/ratelimit/v3/rls.proto")),
    ("envoy/type/v3/ratelimit_unit.proto", include_str!("../proto/envoy/type/v3/ratelimit_unit.proto")),
    (
        "kuadrant/service/ratelimit/v1/ratelimit.proto",
        include_str!("../proto/kuadrant/service/ratelimit/v1/ratelimit.proto"),
    ),
];

/// The files of the messages and of the service, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("../generated/descriptors.bin");
