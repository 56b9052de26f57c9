//! Rate limiting for Axum, Tonic and any `tower::Service<http::Request<B>>`.
//!
//! ```
//! use axum::{Router, routing::get};
//! use portcullis::key::{Header, KeyExtractor as _};
//! use portcullis::{ClientIp, Limiter, Policy, Quota};
//!
//! # fn app() -> Router {
//! let limiter = Limiter::memory();
//! let search = Policy::token_bucket("search", Quota::per_second(10).burst(20));
//! let login = Policy::sliding_window("login", Quota::per_minute(5));
//! let app = Router::new()
//!     .route("/search", get(search_page).layer(limiter.layer(search).by(Header::named("x-api-key").or(ClientIp::peer()))))
//!     .route("/login", get(sign_in).layer(limiter.layer(login).by(ClientIp::peer())));
//! # async fn search_page() {}
//! # async fn sign_in() {}
//! # app
//! # }
//! # let _ = app();
//! ```
//!
//! Serve it with `axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())`: [`ClientIp`] needs the
//! peer's address.
//!
//! - A [`Policy`] is a named strategy: [`Policy::token_bucket`] allows a burst and refills, [`Policy::gcra`] spaces requests
//!   evenly, [`Policy::leaky_bucket`] delays them to that spacing; [`Policy::fixed_window`], [`Policy::sliding_window`] and
//!   [`Policy::sliding_log`] count in windows.
//! - A key identifies the caller that is charged: [`ClientIp`], [`Header`], [`Bearer`], [`Cookie`], [`Query`], [`Extension`],
//!   [`Route`], [`Global`], a closure, or several of them joined by [`and`](KeyExtractor::and) and [`or`](KeyExtractor::or).
//! - A [`Limiter`] keeps the state in memory or, with the feature `redis`, in Redis, Valkey or a cluster.
//! - While the store fails, each instance enforces the whole limit on its own, in memory. A policy may
//!   [set another failure mode](Policy::on_store_failure): a share of the limit per instance; reject requests as unavailable; or
//!   admit them, for a part of the outage or for all of it.
//! - A denied request is answered with 429, in gRPC `RESOURCE_EXHAUSTED`, and with headers that state when to retry;
//!   [`RateLimitLayer::headers`] selects their form.
//! - The [`Decision`] of an admitted request is in its extensions, together with a [`Charge`], with which a handler charges
//!   more or refunds. A [shadow](RateLimitLayer::shadow) policy decides but never rejects.
//!
//! This crate only combines the others: [`portcullis_core`] has the algorithms and the types of decisions,
//! [`portcullis_tower`] the layer and its responses.

pub mod key;
mod limiter;
#[cfg(feature = "redis")]
pub mod redis;
pub mod store;

pub use limiter::Limiter;
pub use portcullis_core::{
    Anchor, Decision, FailureMode, FailureModeError, ParseQuotaError, Policy, PolicyError, PolicyName, Quota,
    QuotaError, Receipt, Refill, Retry, Secret, SecretError, Settlement, StoreError, Timestamp, Verdict,
};
#[cfg(feature = "axum")]
pub use portcullis_tower::MissingCharge;
pub use portcullis_tower::{
    Charge, ChargeError, ClientIp, LayerBuilder, LayerError, OnMissing, PolicyConflict, RateLimit,
    RateLimitLayer, Reason, Rejection, ResponseBody, ResponseFuture, Shadow,
};

/// Response headers: which a layer writes, and their names.
pub mod headers {
    pub use portcullis_tower::RateLimitHeaders;
    pub use portcullis_tower::headers::*;
}

/// Tools for the tests of a limited service.
#[cfg(feature = "testing")]
pub mod testing {
    pub use portcullis_core::ManualClock;
}

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// Compiles the code in the other pages.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms/token-bucket.md")]
mod token_bucket {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms/gcra.md")]
mod gcra {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms/leaky-bucket.md")]
mod leaky_bucket {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms/fixed-window.md")]
mod fixed_window {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms/sliding-window.md")]
mod sliding_window {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms/sliding-log.md")]
mod sliding_log {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/identity.md")]
mod identity {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/answers.md")]
mod answers {}
