//! Rate limiting for Axum, Tonic and any `tower::Service<http::Request<B>>`.
//!
//! ```
//! use axum::{Router, routing::get};
//! use portcullis::{ClientIp, Header, KeyExtractor as _, Limiter, Policy, Quota};
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
//! Serve it with `axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())`: without the address of
//! the peer [`ClientIp`] has nothing to go by.
//!
//! - A [`Policy`] is a named strategy: [`Policy::token_bucket`] allows a burst and fills up again, [`Policy::gcra`]
//!   spaces requests evenly, [`Policy::leaky_bucket`] delays them until they are; [`Policy::fixed_window`],
//!   [`Policy::sliding_window`] and [`Policy::sliding_log`] count in windows.
//! - A key says who is charged: [`ClientIp`], [`Header`], [`Bearer`], [`Cookie`], [`Query`], [`Extension`],
//!   [`Route`], [`Global`], a closure, or several of them joined by [`and`](KeyExtractor::and) and [`or`](KeyExtractor::or).
//! - A [`Limiter`] keeps the state in memory or, with the feature `redis`, in Redis, Valkey or a cluster.
//! - While the store fails, each instance enforces the whole limit by itself, in memory. A policy may
//!   [state another mode](Policy::on_store_failure): a share of the limit per instance; requests are refused, as unavailable; or
//!   they pass, for a part of the outage or for all of it.
//! - A denied request is answered 429, in gRPC `RESOURCE_EXHAUSTED`, with headers that say when to come back; which, and
//!   in what form, is [the layer's](RateLimitLayer::headers) to say.
//! - The [`Decision`] of an admitted request is in its extensions, and with it a [`Charge`], by which a handler charges
//!   more or gives back. A [shadow](RateLimitLayer::shadow) policy decides and refuses nobody.
//!
//! The crate only joins the others together: [`portcullis_core`] has the arithmetic and the vocabulary,
//! [`portcullis_tower`] the layer and the answers.

mod limiter;
#[cfg(feature = "redis")]
mod redis;

pub use limiter::Limiter;
pub use portcullis_core::{
    Anchor, Check, Checks, ChecksError, Clock, Decision, FailureMode, FailureModeError, FixedWindow, Gcra,
    Key, KeyWriteError, KeyWriter, LeakyBucket, Outcome, ParseQuotaError, Policy, PolicyError, PolicyName,
    Quota, QuotaError, Receipt, Refill, Retry, Secret, SecretError, Settlement, SlidingLog, SlidingWindow,
    Store, StoreError, StoreErrorKind, StoreFuture, Strategy, Timestamp, TokenBucket, TooMuchWork, Verdict,
};
pub use portcullis_memory::{
    Fallback, FallbackBuilder, MemoryPolicyStats, MemoryStats, MemoryStore, MemoryStoreBuilder, SystemClock,
};
#[cfg(feature = "redis")]
pub use portcullis_redis::{ConnectError, NamespaceError, RedisStore, RedisStoreBuilder, SetupError};
#[cfg(feature = "axum")]
pub use portcullis_tower::MissingCharge;
pub use portcullis_tower::{
    And, AsyncKeyExtractor, Bearer, Behind, Bucket, Charge, ChargeError, ClientIp, ClientIpError, Cookie,
    Credential, Extension, Global, Header, Identity, KeyError, KeyExtractor, LayerBuilder, LayerError,
    Lookup, LookupFuture, OnMissing, Or, PolicyConflict, Query, RateLimit, RateLimitHeaders, RateLimitLayer,
    Reason, Rejection, ResponseBody, ResponseFuture, Route, Shadow, Trust, TrustError, headers,
};
#[cfg(feature = "redis")]
pub use redis::{RedisLimiter, RedisLimiterError};

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// So does the code in the book.
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
