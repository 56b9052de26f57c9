//! Rate limiting for Axum, Tonic and any `tower::Service<http::Request<B>>`.
//!
//! ```
//! use axum::{Router, routing::get};
//! use portcullis::key::{Header, KeyExtractor as _};
//! use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
//!
//! async fn search_page() -> &'static str {
//!     "found"
//! }
//! async fn sign_in() -> &'static str {
//!     "welcome"
//! }
//!
//! let limiter = Limiter::memory();
//! let search = Policy::token_bucket("search", Quota::per_second(10).burst(20));
//! let login = Policy::sliding_window("login", Quota::per_minute(5));
//! let app: Router = Router::new()
//!     .route("/search", get(search_page).layer(limiter.layer(search.by(Header::named("x-api-key").or(ClientIp::peer())))))
//!     .route("/login", get(sign_in).layer(limiter.layer(login.by(ClientIp::peer()))));
//! # let _ = app;
//! ```
//!
//! Serve it with `axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())`: [`ClientIp`] needs the
//! peer's address.
//!
//! | you need | use |
//! |---|---|
//! | a limit | [`Policy`]: [`token_bucket`](Policy::token_bucket) allows a burst and refills, [`gcra`](Policy::gcra) spaces requests evenly, [`leaky_bucket`](Policy::leaky_bucket) delays them to that spacing; [`fixed_window`](Policy::fixed_window), [`calendar_window`](Policy::calendar_window), [`sliding_window`](Policy::sliding_window) and [`sliding_log`](Policy::sliding_log) count in windows. Its size is a [`Quota`] |
//! | a limit on requests at the same time, streams and tasks included | [`RateLimitLayer::and`] with a [`Concurrency`](layer::Concurrency); [`Charge::take_permit`] for tasks and web sockets |
//! | other quotas for single callers, such as those of their plans | [`Policy::caller_quotas`] with [`Limit::quota`], or with a look-up: [`Lookup::quota`](key::Lookup::quota), [`Limit::quota_by_async`] |
//! | the client that is charged | [`ClientIp`], and the other extractors of [`key`]: header, bearer token, cookie, query parameter, extension, route, a closure, or several joined |
//! | a place for the state | [`Limiter::memory`], [`Limiter::memory_among`] for instances that share no store, [`Limiter::redis`] (feature `redis`), or [`Limiter::new`] with another [`store`] |
//! | one limit over several data centres | `redis::RedisLimiter::region` (feature `redis`) |
//! | to reject the least important requests while the service is overloaded | [`Limiter::shed`] |
//! | to keep to the limits of other servers | `Limiter::outgoing` (feature `outgoing`) |
//! | a layer | [`PolicyExt::by`] makes a [`Limit`] of a policy, and [`Limiter::layer`] a [`RateLimitLayer`] of the limit |
//! | no limit for `/health`, for a network or for an account; requests that are rejected at once | [`RateLimitLayer::except`], [`deny`](RateLimitLayer::deny) and [`only`](RateLimitLayer::only), with the matchers in [`layer`] |
//! | requests that wait for a bounded time instead of being rejected | [`Policy::wait_at_most`] |
//! | to try a limit out, or to change it while the service runs | [`Limit::shadow`] and [`enforce`](Limit::enforce); [`Limiter::set_mode`] and [`Limiter::set_policy`] |
//! | limits in a file that is reloaded while the service runs | `Limiter::with_rules` and `Limiter::rules`, see the [guide](guide::rules) (feature `rules`) |
//! | to know what was decided | the [`Decision`] of the [`Charge`] in the extensions of an admitted request; a [shadow](Limit::shadow) policy decides but never rejects |
//! | to charge more or refund in a handler | [`Charge`], in the extensions too |
//! | a limit that a handler checks itself | [`Limiter::check`]; [`Charge::check`] for the messages of a stream |
//! | to charge only certain responses, such as those to failed log-ins | [`Limit::charge_when`] |
//! | to block clients that go on after their rejections; to block a client, or to give it another quota, by hand | [`Limit::lock_out`]; [`Limiter::block`] and [`Limiter::grant`] |
//! | to charge a stream what it used | [`Limit::reserve`], and a [`Usage`](charge::Usage) that the body counts; `Limit::read_usage` where the response states it (feature `usage`); [`Policy::allow_debt`] for responses that use more than the burst; [`Limiter::drain`] at shutdown |
//! | other responses | [`Rejection`] and [`RateLimitLayer::reject_with`]; [`headers`] has the fields |
//! | to warn clients near a limit, or to spread their retries | [`Limit::warn_at`]; [`RateLimitLayer::spread_retries`] |
//! | another behaviour when the store fails | [`FailureMode`]; by default each instance enforces the whole limit on its own, in memory |
//! | no limits, in development or tests | [`Limiter::off`] |
//! | metrics | `Limiter::metrics` (feature `metrics`); an [`Observer`](event::Observer) of your own, by [`Limiter::observe`] |
//! | the decision in `tracing` spans | [`event::SpanFields`] |
//! | to see what is limited, and to find a limit that does not apply | [`Limiter::layers`] and [`Limiter::policies`]; [`RateLimitLayer::route`] names a layer |
//! | operators who look, block, grant and switch modes | `Limiter::admin` (feature `admin`) |
//! | the 429 in an OpenAPI document | `RateLimitLayer::openapi` (feature `openapi`) |
//!
//! A denied request is answered with 429, in gRPC `RESOURCE_EXHAUSTED`, and with headers that state when to retry.
//!
//! # Guides
//!
//! - [`guide::identity`]: the client that is charged, also behind proxies
//! - [`guide::responses`]: what a client sees, and what a handler does
//! - [`guide::stores`]: memory, Redis, and what happens while Redis does not answer
//! - [`guide::rules`]: limits in files that operators change
//! - [`guide::testing`]: tests with a clock that they set
//!
//! The [book] has a tutorial, one page for each task, and the reference. For operators and for other languages:
//!
//! - [The command] `portcullis` checks, explains and simulates rules, and serves them
//! - [Set up Redis], [Alert on limits], [Look and intervene] by the admin API, [Watch the live page]
//! - [Run the service] for Envoy, nginx, `HAProxy` and Caddy, or put the [reverse proxy] in front of a server that has no limits
//! - [Warnings and errors]: the code of each line of the log, and what to do
//!
//! # Items by subject
//!
//! | subject | items | errors |
//! |---|---|---|
//! | limits | [`Policy`], [`PolicySettings`], [`PolicyName`], [`Quota`], [`Refill`], [`Anchor`], [`FailureMode`] | [`Mistakes`] of [`PolicyError`], [`PolicyNameError`], [`store::PolicyPartError`], [`QuotaError`], [`ParseQuotaError`], [`FailureModeError`], [`store::LeaseError`], [`store::WaitError`], [`store::DebtError`], [`store::CallerQuotasError`], [`store::CallerQuotaError`] |
//! | calendars | the module [`calendar`] | `CalendarError` |
//! | layers | [`Limiter`], [`Limit`], [`PolicyExt`], [`RateLimitLayer`], [`OnMissing`], the module [`layer`]; the service [`RateLimit`] with its [`ResponseFuture`] and [`ResponseBody`] | [`Mistakes`] of [`LayerError`], [`PolicyConflict`], [`layer::LayerOptionError`], [`layer::LockOutError`], [`layer::MatcherError`], [`layer::Undecided`], [`layer::PercentError`] |
//! | keys | [`ClientIp`], the module [`key`], [`Secret`] | [`SecretError`] |
//! | decisions | [`Decision`], [`Verdict`], [`Retry`], [`Timestamp`], [`Shadow`] | |
//! | charges | [`Charge`], [`Receipt`], [`Settlement`], the modules [`charge`] and `usage` | [`ChargeError`], [`MissingCharge`], `usage::PointerError` |
//! | handlers and streams | the module [`check`] | [`check::Limited`] |
//! | outgoing requests | `Limiter::outgoing` and the module `outgoing` | `outgoing::OutgoingError` |
//! | responses | [`Rejection`], [`Reason`], the module [`headers`] | |
//! | load shedding | [`Limiter::shed`] and the module [`shed`] | [`shed::ShedError`] |
//! | stores | the modules [`store`] and [`redis`] | [`StoreError`] |
//! | grants and blocks | [`Limiter::grant`], [`Limiter::block`], [`Limiter::block_client`], [`Limiter::overrides`], [`Limiter::key_of`]; [`store::GrantBuilder`], [`store::BlockReach`], [`store::BlockedClient`], [`store::Override`] with its [`store::Grant`] and [`store::Block`] | [`store::OverridingError`], [`store::OverrideError`], [`key::KeyError`] |
//! | events | the module [`event`] | |
//! | rules in files | `Limiter::with_rules` and the module `rules` | `rules::Diagnostics`, `rules::NoRules`, `rules::ReloadError`, `rules::UnknownRule`, `rules::WatchError` |
//! | operators | the modules `admin` and `metrics`; [`Limiter::layers`], [`Limiter::policies`] | `admin::HostError` |
//! | tests | the module [`testing`] | |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `axum` (default) | the peer's address in Axum servers; [`Charge`], [`Usage`](charge::Usage) and [`Shadow`] as extractors, [`check::Limited`] as a response |
//! | `tonic`, `tonic-tls` | the peer's address in Tonic servers, `tonic-tls` in those that terminate TLS themselves; layers around a single service; a `Status` of [`check::Limited`] |
//! | `redis`, `redis-tls` | the modules `redis`, with state in Redis, Valkey, a cluster or behind Sentinel, and `regions`; over TLS |
//! | `outgoing`, `reqwest` | the module `outgoing`: limits on outgoing requests, around an HTTP client such as hyper's; around a `reqwest::Client` |
//! | `serde` | quotas such as `"10/s burst 20"`, strategies and policies in configuration files, in any self-describing serde format |
//! | `calendar` | the module `calendar`, with limits per month or week in a time zone; the data of all time zones is compiled in |
//! | `rules` | the module `rules`: limits in files in TOML, YAML or JSON, which are reloaded while the service runs |
//! | `signed-rules` | `rules`, and rules for a fleet in Redis, signed by Ed25519 |
//! | `openapi` | `RateLimitLayer::openapi`: the responses of a layer for the OpenAPI document of the service |
//! | `admin` | the module `admin`: an Axum router for operators, off by default |
//! | `metrics` | the module `metrics`: counters, gauges and histograms for Prometheus, and everything else that reads the `metrics` facade |
//! | `testing` | the module `testing`: a limiter with a clock that a test sets |
//! | `usage` | the module `usage`: the tokens that responses of language models state, read as they pass |
//!
#![doc = concat!("[book]: ", env!("CARGO_PKG_HOMEPAGE"), "/index.html")]
#![doc = concat!("[The command]: ", env!("CARGO_PKG_HOMEPAGE"), "/reference/command.html")]
#![doc = concat!("[Set up Redis]: ", env!("CARGO_PKG_HOMEPAGE"), "/how-to/operate/redis.html")]
#![doc = concat!("[Alert on limits]: ", env!("CARGO_PKG_HOMEPAGE"), "/how-to/operate/alerts.html")]
#![doc = concat!("[Look and intervene]: ", env!("CARGO_PKG_HOMEPAGE"), "/how-to/operate/admin.html")]
#![doc = concat!("[Watch the live page]: ", env!("CARGO_PKG_HOMEPAGE"), "/how-to/operate/live-page.html")]
#![doc = concat!("[Run the service]: ", env!("CARGO_PKG_HOMEPAGE"), "/how-to/gateway/serve.html")]
#![doc = concat!("[reverse proxy]: ", env!("CARGO_PKG_HOMEPAGE"), "/how-to/gateway/proxy.html")]
#![doc = concat!("[Warnings and errors]: ", env!("CARGO_PKG_HOMEPAGE"), "/reference/codes.html")]
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "axum"), doc = "\n[`MissingCharge`]: #features")]
#![cfg_attr(feature = "redis", doc = "\n[`redis`]: mod@redis")]
#![cfg_attr(not(feature = "redis"), doc = "\n[`Limiter::redis`]: #features\n[`redis`]: #features")]
#![cfg_attr(feature = "calendar", doc = "\n[`calendar`]: mod@calendar")]
#![cfg_attr(not(feature = "calendar"), doc = "\n[`calendar`]: #features")]
#![cfg_attr(feature = "testing", doc = "\n[`testing`]: mod@testing")]
#![cfg_attr(not(feature = "testing"), doc = "\n[`testing`]: #features")]

/// A reference to a page of the book.
macro_rules! book {
    ($label:literal, $page:literal) => {
        concat!("[", $label, "]: ", env!("CARGO_PKG_HOMEPAGE"), "/", $page, ".html")
    };
}

#[doc = book!("routes", "reference/admin")]
#[cfg(feature = "admin")]
pub mod admin;
#[cfg(feature = "calendar")]
pub mod calendar;
// Documentation only.
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod key;
mod limiter;
#[doc = book!("list", "reference/metrics")]
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod regions;
#[cfg(feature = "rules")]
pub mod rules;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use limiter::Limiter;
pub use portcullis_core::{
    Anchor, Decision, FailureMode, FailureModeError, Mistakes, ParseQuotaError, Policy, PolicyError,
    PolicyName, PolicyNameError, PolicySettings, Quota, QuotaError, Receipt, Refill, Retry, Secret,
    SecretError, Settlement, StoreError, Timestamp, Verdict,
};
#[cfg(feature = "axum")]
pub use portcullis_tower::MissingCharge;
pub use portcullis_tower::{
    BodyRate, Charge, ChargeError, ClientIp, GrpcClaim, LayerError, Limit, OnMissing, PolicyConflict,
    PolicyExt, RateLimit, RateLimitLayer, RatedBody, Reason, Rejection, ResponseBody, ResponseFuture, Shadow,
    SlowBody, Unread,
};

/// Checks in handlers, and of the messages of streams. See [`Limiter::check`] and [`Charge::check`].
pub mod check {
    pub use portcullis_tower::{Check, CheckBuilder, CheckFuture, Limited, Meter};
}

/// Charges by the outcome of the response, reservations that are settled when it has ended, and permits of requests in flight that
/// tasks hold. See [`Limit::charge_when`], [`Limit::reserve`] and [`Charge::take_permit`].
pub mod charge {
    #[cfg(feature = "axum")]
    pub use portcullis_tower::MissingUsage;
    pub use portcullis_tower::{Drained, InFlightPermit, OnAbort, ResponseOutcome, Usage};
}

/// Observers of what happens to requests, for metrics and diagnostics. See [`Limiter::observe`].
pub mod event {
    pub use portcullis_tower::{
        Event, EventKind, Fingerprint, FingerprintError, LayerPolicies, Observer, SettlementLoss, SpanFields,
        UsageLoss,
    };
}

/// Load shedding: what [`Limiter::shed`] makes. [`ShedLayer`](shed::ShedLayer) describes it.
pub mod shed {
    pub use portcullis_shed::{
        Class, Shed, ShedBody, ShedError, ShedFuture, ShedLayer, ShedPermit, ShedSettings,
    };
}

/// Response headers: which a layer writes, and their names.
pub mod headers {
    pub use portcullis_tower::headers::{
        RATELIMIT, RATELIMIT_LIMIT, RATELIMIT_POLICY, RATELIMIT_REMAINING, RATELIMIT_RESET,
        X_RATELIMIT_DEGRADED, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET,
        X_RATELIMIT_SHADOW, X_RATELIMIT_WARNING, grpc_web,
    };
    pub use portcullis_tower::{HeaderRenameError, RateLimitHeaders};
}

/// Options of layers, and [what they limit](Limiter::layers): limits on [requests in flight](RateLimitLayer::and), [quotas](Limit::quota) of the caller's
/// own, how a policy is tried out, and which requests a layer denies, limits and exempts, by matchers for
/// [`RateLimitLayer::except`], [`RateLimitLayer::deny`] and [`RateLimitLayer::only`].
///
/// ```
/// use portcullis::layer::{Network, RequestPath};
/// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
///
/// let clients = ClientIp::peer();
/// let layer = Limiter::memory()
///     .layer(Policy::gcra("all", Quota::per_second(10)).by(clients.clone()))
///     .deny(Network::of(&clients, ["198.51.100.0/24"]))
///     .except(RequestPath::exact("/health"));
/// # let _ = layer;
/// ```
pub mod layer {
    pub use portcullis_core::Concurrency;
    pub use portcullis_core::overrides::{LockOut, LockOutError};
    pub use portcullis_tower::matching::{
        Both, ExtensionValue, GrpcMethod, Inverted, MatcherError, Network, PlainPath, RequestMatcher,
        RequestPath, RequestValue, Undecided,
    };
    #[cfg(feature = "axum")]
    pub use portcullis_tower::{AxumFuture, AxumRateLimit, AxumRateLimitLayer};
    pub use portcullis_tower::{
        CallerQuota, GrpcCode, GrpcRejection, KeyedLimit, LayerOptionError, LayerSummary, Mode,
        ParseModeError, Percent, PercentError, PolicySummary, QuotaLookup, QuotaRefusal, RejectionFormat,
        RejectionResponse,
    };
}

/// Limits on outgoing requests: what [`Limiter::outgoing`] makes. [`OutgoingLayer`](outgoing::OutgoingLayer) describes them.
#[cfg(feature = "outgoing")]
pub mod outgoing {
    pub use portcullis_outgoing::{
        Authority, Outgoing, OutgoingError, OutgoingFuture, OutgoingLayer, OutgoingRequest, OutgoingResponse,
        Paced, RemainingHeaders, ResetFormat,
    };
}

/// What responses of language models state that they have used: the argument of [`Limit::read_usage`].
/// [`UsageReader`](usage::UsageReader) describes it.
#[cfg(feature = "usage")]
pub mod usage {
    pub use portcullis_usage::{
        Count, MOST_RATIO, MOST_READ, PointerError, Unreadable, UsageReader, UsageScan,
    };
}

/// Compiles the code in both files README. That of the repository is not in the packed crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
mod readme {}
