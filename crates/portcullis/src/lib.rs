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
//! | you need | use |
//! |---|---|
//! | a limit | [`Policy`]: [`token_bucket`](Policy::token_bucket) allows a burst and refills, [`gcra`](Policy::gcra) spaces requests evenly, [`leaky_bucket`](Policy::leaky_bucket) delays them to that spacing; [`fixed_window`](Policy::fixed_window), [`sliding_window`](Policy::sliding_window) and [`sliding_log`](Policy::sliding_log) count in windows. Its size is a [`Quota`] |
//! | the client that is charged | [`ClientIp`], and the other extractors of [`key`]: header, bearer token, cookie, query parameter, extension, route, a closure, or several joined |
//! | a place for the state | [`Limiter::memory`], `Limiter::redis` (feature `redis`), or [`Limiter::new`] with another [`store`] |
//! | a layer | [`Limiter::layer`], then the methods of [`LayerBuilder`] and [`RateLimitLayer`] |
//! | to know what was decided | the [`Decision`] in the extensions of an admitted request; a [shadow](RateLimitLayer::shadow) policy decides but never rejects |
//! | to charge more or refund in a handler | [`Charge`], in the extensions too |
//! | other responses | [`Rejection`] and [`RateLimitLayer::reject_with`]; [`headers`] has the fields |
//! | another behaviour when the store fails | [`FailureMode`]; by default each instance enforces the whole limit on its own, in memory |
//!
//! A denied request is answered with 429, in gRPC `RESOURCE_EXHAUSTED`, and with headers that state when to retry.
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

/// Observers of what happens to requests, for metrics and diagnostics. See [`Limiter::with_observer`].
pub mod event {
    pub use portcullis_tower::{Event, EventKind, LayerPolicies, Observer};
}

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

/// Needs the manual clock, as does the next page.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes {}

#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/from-governor.md")]
mod from_governor {}
