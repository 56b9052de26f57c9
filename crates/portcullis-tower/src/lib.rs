//! A [`tower_layer::Layer`] that limits requests: it extracts a key from each request, asks the store once, and lets the
//! request through, delays it, or rejects it.
//!
//! The layer wraps Axum routers and handlers, Tonic servers and services, and any `Service<http::Request<B>>` that implements
//! `Clone`, where `B` is an `http_body::Body`. Most users use it through the crate `portcullis`, whose
//! `Limiter::layer(limit)` is [`RateLimitLayer::new`].
//!
//! # Examples
//!
//! By address, with the defaults:
//!
//! ```
//! use std::net::SocketAddr;
//! use axum::{Router, body::Body, http::Request, routing::get};
//! use portcullis::testing::{self, ManualClock};
//! use portcullis::{ClientIp, Policy, PolicyExt as _, Quota};
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = testing::limiter(&ManualClock::default());
//! let search = Policy::gcra("search", Quota::per_minute(60));
//! let app: Router = Router::new()
//!     .route("/search", get(|| async { "found" }))
//!     .layer(limiter.layer(search.by(ClientIp::peer())));
//!
//! // In a server, `app.into_make_service_with_connect_info::<SocketAddr>()` inserts the address.
//! let peer = SocketAddr::from(([192, 0, 2, 1], 1024));
//! let request = || Request::get("/search").extension(peer).body(Body::empty());
//!
//! let first = app.clone().oneshot(request()?).await?;
//! assert_eq!(first.status(), 200);
//! assert_eq!(first.headers()["x-ratelimit-remaining"], "0");
//!
//! let second = app.oneshot(request()?).await?;
//! assert_eq!(second.status(), 429);
//! assert_eq!(second.headers()["retry-after"], "1");
//! # Ok(())
//! # }
//! ```
//!
//! By API key, with a daily quota and exports that cost more:
//!
//! ```
//! use std::sync::Arc;
//!
//! use http::{Request, Response};
//! use portcullis_core::{Decision, FailureMode, ManualClock, Policy, Quota, Secret};
//! use portcullis_memory::MemoryStore;
//! use portcullis_tower::{Charge, Header, Limit, OnMissing, PolicyExt as _, RateLimitLayer, Registry};
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! fn limit(registry: Arc<Registry>) -> RateLimitLayer {
//!     let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
//!     let daily = Policy::fixed_window("daily", Quota::per_day(1_000)).on_store_failure(FailureMode::Closed);
//!     RateLimitLayer::new(registry, burst.by(Header::named("x-api-key")).on_missing(OnMissing::Shared))
//!         .and(Limit::new(daily).cost_by(|parts| if parts.uri.path() == "/export" { 100 } else { 1 }))
//!         .with_charge()
//!         .decision_in_response()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::builder().clock(ManualClock::default()).build();
//! let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
//! let service = limit(registry).layer(service_fn(|request: Request<String>| async move {
//!     let charge = request.extensions().get::<Charge>().expect("this request is counted");
//!     assert_eq!(charge.decision().remaining(), 19);
//!     Ok::<_, std::convert::Infallible>(Response::new(String::from("the export")))
//! }));
//! let request = Request::get("/export").header("x-api-key", "k-17").body(String::new())?;
//! let response = service.clone().oneshot(request).await?;
//! let decision = response.extensions().get::<Decision>().ok_or("no decision")?;
//! assert_eq!((decision.policy().as_str(), decision.remaining()), ("burst", 19));
//!
//! // The daily policy rejects requests without an identity: `on_missing` is set per policy.
//! let anonymous = service.oneshot(Request::get("/").body(String::new())?).await?;
//! assert_eq!(anonymous.status(), 400);
//! # Ok(())
//! # }
//! ```
//!
//! # Responses
//!
//! | cause | HTTP | gRPC status |
//! |---|---|---|
//! | limited: it fits later | 429, `retry-after` | 8 `RESOURCE_EXHAUSTED`, `grpc-retry-pushback-ms` |
//! | [too many requests](Limit::charge_after) of the client have no outcome yet | 429, no `retry-after` | 8 `RESOURCE_EXHAUSTED` |
//! | limited: the cost can never fit | 400 | 3 `INVALID_ARGUMENT` |
//! | a [list](RateLimitLayer::deny) denies it | 403 | 7 `PERMISSION_DENIED` |
//! | the identity is missing or malformed | 400 | 3 `INVALID_ARGUMENT` |
//! | the same, where the key is a credential | 401, `www-authenticate` | 16 `UNAUTHENTICATED` |
//! | a look-up fails, or takes longer than [its deadline](RateLimitLayer::lookup_deadline) | 503 | 14 `UNAVAILABLE` |
//! | the server cannot determine the identity | 500 | 13 `INTERNAL` |
//! | the store fails, and a policy is closed in that case, or has been open for its maximum time | 503 | 14 `UNAVAILABLE` |
//! | the store is overloaded, regardless of the failure modes | 503 | 14 `UNAVAILABLE` |
//! | the service is overloaded, in front of which a layer sheds load (`portcullis-shed`) | 503, `retry-after` | 14 `UNAVAILABLE`, `grpc-retry-pushback-ms` |
//! | [too many requests wait](Registry::max_waiting_requests), or the inner service is not [ready](RateLimitLayer::ready_deadline) after a wait | 503 | 14 `UNAVAILABLE` |
//!
//! A request that is rejected for its identity stays charged [by address](Limit::count_rejections), and the response
//! is 429 once that budget is used up. A layer with [look-ups](Limit::by_async) starts them only if all policies with
//! synchronous keys let the request pass.
//!
//! Both kinds of limited responses, and the responses to requests that pass, carry the budget of the decisive policy:
//! `x-ratelimit-limit`, `-remaining` and `-reset`, or the headers set by [`RateLimitLayer::headers`]. With nested layers, the
//! innermost layer that decided writes them. Rejections must not be cached (`cache-control: no-store`). In HTTP they are plain
//! text, JSON or problem details, as `Accept` prefers, or the response of the closure given to
//! [`RateLimitLayer::reject_with`]. A request with a gRPC content type is gRPC; it is rejected trailers-only, with `RetryInfo`
//! and `QuotaFailure` in `grpc-status-details-bin`. gRPC-Web requests get gRPC-Web responses.
//!
//! A layer [with charges](RateLimitLayer::with_charge) leaves a [`Charge`] in the extensions of requests that pass. It has the
//! [`Decision`](portcullis_core::Decision), and a handler charges more or refunds by it; see also
//! [`RateLimitLayer::decision_in_response`]. A response that streams is charged an [estimate](Limit::reserve), which is
//! settled when its body ends. Where a decision has a delay, the layer
//! waits on a tokio timer. A request that waits for its slot, a window or a look-up does not keep an instance of the inner service
//! ready. A request that leaves a queue before its slot gives the slot up, and requests behind it move up.
//!
//! A handler that limits by what a layer cannot see makes a [`Check`] of its own, which answers in the same way: its error,
//! [`Limited`], is the response of a layer. [`Charge::check`] limits the messages of a stream.
//!
//! A policy in [shadow mode](Limit::shadow) decides and reports, in [`Shadow`], and never rejects. It can be
//! [enforced for a share](Limit::enforce) of its keys first, and be switched to [another mode](Registry::set_mode) while
//! the layer runs.
//!
//! # Policies that change
//!
//! [`Registry::set_policy`] replaces a policy while its layers run. Rate-based algorithms keep the level of each key, windows and
//! logs their counts. A layer compares one number per request with that of the last change, and a layer whose policies never
//! change pays nothing else. A name is registered as long as a layer, a service or a request has the policy, or a check of a handler
//! is prepared for it; afterwards a different policy can take it. The store keeps the states of a forgotten name until they expire,
//! and so does a policy of the same name and algorithm that is registered meanwhile.
//!
//! [`Registry::install`] replaces any number of policies at once, for rules in files, also those whose states cannot follow.
//!
//! # When the store fails
//!
//! "Limited" and "the store failed" are reported differently. The [failure mode](portcullis_core::FailureMode) of each policy
//! decides about the request; if it is charged to several policies, the strictest mode applies:
//!
//! | mode | the request | headers |
//! |---|---|---|
//! | `Closed` | is rejected: 503 | |
//! | `Local`, the default | is limited by this instance alone, by the whole limit or its share: it passes, or 429 | the figures of this instance and `x-ratelimit-degraded: true` |
//! | `OpenFor` | passes for the given time, then it is rejected: 503 | `x-ratelimit-degraded: true` |
//! | `Open` | passes | `x-ratelimit-degraded: true` |
//!
//! A store that is [overloaded](portcullis_core::StoreErrorKind::is_overload) has not failed. The request is rejected with
//! 503, without `retry-after` and without `x-ratelimit-degraded`, is not charged, and failure modes do not apply. Overload
//! is logged separately, at most once a minute, with a count.
//!
//! `Local` and `OpenFor` need a store with a `Fallback` of `portcullis-memory`; without one, they are closed. Each layer logs
//! one warning when an outage begins, with the failure mode of each policy, one when an `OpenFor` has run out, and one line when
//! the store has answered for a second without failing.
//!
//! # Logging
//!
//! Requests with a missing or malformed identity are logged at once, then at most once a minute with their count. Logged at the
//! first request concerned, then at most once an hour with a count: no connection info, a forwarding header that is not
//! trusted, trust of every address, a proxy that does not overwrite its header, a request that two layers charge under one
//! policy. Requests that shadow policies would have rejected are counted like missing identities. No line contains a value
//! from a request.
//!
//! The log is written from [events](EventKind), which an [`Observer`] gets as well: [`Registry::observe`].
//!
//! # Position in the stack
//!
//! - Outside of authentication, the layer sees failed logins, and can limit them [alone](Limit::charge_when), but no user:
//!   limit [by address](ClientIp). Inside, limit by the [user that authentication found](Extension). To do both, use two layers.
//! - Inside of CORS, tracing and compression, so that they see rejections as well. A browser shows the headers to a page of
//!   another origin only if the CORS layer exposes them: [`RateLimitLayer::exposed_headers`]. A preflight has
//!   [a budget of its own](RateLimitLayer::limit_preflights).
//! - The layer added last is the outermost in Axum.
//!
//! # Features
//!
//! `axum`, `tonic` and `tonic-tls` let [`ClientIp`] find the address that these servers provide. `axum` adds
//! `Route::matched_path`, the extractors, [`Limited`] as a response and `RateLimitLayer::for_axum`. `tonic` lets a layer wrap a single Tonic service, and makes
//! a `Status` of [`Limited`]. `usage` adds `Limit::read_usage`.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
#[cfg(feature = "axum")]
mod axum;

mod body;
mod charge;
mod check;
mod config;
mod layer;

mod limit;
mod registry;
mod selected;
mod service;

#[cfg(feature = "axum")]
pub use self::axum::{AxumFuture, AxumRateLimit, AxumRateLimitLayer};
pub use body::ResponseBody;
pub use body::discard::Unread;
pub use body::rate::{BodyRate, GrpcClaim, RatedBody, SlowBody};
pub use charge::{Charge, Shadow, Usage};
#[cfg(feature = "axum")]
pub use charge::{MissingCharge, MissingUsage};
pub use check::{Check, CheckBuilder, CheckFuture, Limited, Meter};
pub use layer::RateLimitLayer;
pub use limit::cost::Cost;
pub use limit::quota::{CallerQuota, QuotaLookup};
pub use limit::response_outcome::ResponseOutcome;
pub use limit::{KeyedLimit, Limit, PolicyExt};
pub use portcullis_core::KeyWriter;
pub use portcullis_engine::charge::ChargeError;
pub use portcullis_engine::engine::permits::InFlightPermit;
pub use portcullis_engine::engine::settler::Drained;
pub use portcullis_engine::{
    BlockReach, BlockedClient, Class, Event, EventKind, FOLLOW_EVERY, Fingerprint, FingerprintError,
    InstalledPolicy, LayerError, LayerOptionError, LayerPolicies, Mode, Observer, OnAbort, OnMissing,
    OverridingError, ParseModeError, Percent, PercentError, PolicyConflict, QuotaRefusal, Reason,
    SettlementLoss, SpanFields, UsageLoss,
};
pub use portcullis_identity::{
    And, AsyncKeyExtractor, Bearer, CachedLookup, ClientIp, ClientIpError, Cookie, Credential, Extension,
    Global, Header, Host, Identity, IpPrefix, KeyBytes, KeyError, KeyExtractor, KeyForms, Lookup,
    LookupCounts, LookupFuture, NamedPart, Networks, Or, PathKey, ProxiesWithoutHeader, Query, Route,
    TaggedPart, Trust, TrustError, matching,
};
#[doc(hidden)]
pub use portcullis_log::file_log::LimitTexts;
pub use portcullis_response::{
    GrpcCode, GrpcRejection, HeaderRenameError, RateLimitHeaders, Rejection, RejectionFormat,
    RejectionResponse, headers,
};
pub use registry::layers::{LayerSummary, PolicySummary};
pub use registry::{GrantBuilder, Installation, Registry};
pub use selected::joint;
pub use selected::{
    CurrentLayer, LayerLog, PreparedLayer, SelectLayer, SelectedFuture, SelectedRateLimit, Selection,
};
pub use service::RateLimit;
pub use service::future::ResponseFuture;

/// What the other layers of the workspace need. It is public because they are other crates, and may change with any version.
pub mod internal {
    pub use crate::body::EitherBody;
    pub use crate::body::discard::{BYTES as DISCARDED_BYTES, discard};
    pub use crate::body::rate::rated;
    pub use crate::check::overloaded;
    pub use crate::registry::ListedShed;
    pub use portcullis_response::internal::HeaderRenames;
}
