//! The routers: one route, which answers at once, behind each of the layers.
//!
//! All limiters identify a client by the header `x-user`. The routers have their state, as `axum::serve` gives it to them: without it they
//! would apply their layers to each request.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, Request};
use axum::routing::{Route, get};
use axum_governor::Header as AxumGovernorHeader;
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Header;
use portcullis::{Limiter, Policy, Quota, RateLimitLayer};
use tower::Service;
use tower::layer::layer_fn;
use tower_governor::GovernorLayer;
use tower_governor::errors::GovernorError;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;

/// How much a client may send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limits {
    /// More per client than a measurement sends, refilled slowly enough that no state expires: 1 000 per minute.
    ManyClients,
    /// Refilled faster than one client can send, with small figures in the headers: a burst of 1 000, 10 million per second.
    OneClient,
    /// Refilled faster than a server answers, a million per second. The burst of 50 000 also admits a request that a thread has timed
    /// 50 ms before it charges it, because another thread has had the processor meanwhile.
    OneClientOfThreads,
    /// One request per week.
    OneRequest,
}

impl Limits {
    fn quota(self) -> Quota {
        match self {
            Self::ManyClients => Quota::per_minute(1_000).burst(1_000),
            Self::OneClient => Quota::per_second(10_000_000).burst(1_000),
            Self::OneClientOfThreads => Quota::per_second(1_000_000).burst(50_000),
            Self::OneRequest => Quota::per_week(1).burst(1),
        }
    }

    /// The time in which one unit is refilled, and the burst.
    fn interval(self) -> (Duration, NonZeroU32) {
        match self {
            Self::ManyClients => (Duration::from_millis(60), THOUSAND),
            Self::OneClient => (Duration::from_nanos(100), THOUSAND),
            Self::OneClientOfThreads => (Duration::from_micros(1), FIFTY_THOUSAND),
            Self::OneRequest => (Duration::from_secs(7 * 24 * 3_600), NonZeroU32::MIN),
        }
    }
}

/// The headers of an admitted response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Headers {
    None,
    XRateLimit,
}

/// The router without a layer.
pub(super) fn bare() -> Router {
    route().with_state(())
}

fn route() -> Router {
    Router::new().route("/", get(async || "found"))
}

/// The router with a layer that does nothing: what Axum itself adds for any layer.
pub(super) fn passing() -> Router {
    route().layer(layer_fn(Passing::<Route>)).with_state(())
}

pub(super) fn ours(limits: Limits, headers: Headers) -> Router {
    let headers = match headers {
        Headers::None => RateLimitHeaders::NONE,
        Headers::XRateLimit => RateLimitHeaders::X_RATELIMIT,
    };
    route().layer(layer(limits).headers(headers).for_axum()).with_state(())
}

/// As the peers, whose handlers learn nothing of the decision.
pub(super) fn ours_without_charge(limits: Limits) -> Router {
    let layer = layer(limits).headers(RateLimitHeaders::NONE).without_charge();
    route().layer(layer.for_axum()).with_state(())
}

fn layer(limits: Limits) -> RateLimitLayer {
    Limiter::memory().layer(Policy::gcra("bench", limits.quota())).by(Header::named("x-user"))
}

pub(super) fn tower_governor(limits: Limits, headers: Headers) -> Router {
    let (period, burst) = limits.interval();
    let mut builder = GovernorConfigBuilder::default();
    let mut builder = builder.period(period).burst_size(burst.get()).key_extractor(ByUser);
    match headers {
        Headers::None => {
            let config = Arc::new(builder.finish().expect(CONFIG));
            route().layer(GovernorLayer::<ByUser, NoOpMiddleware, Body>::new(config)).with_state(())
        }
        Headers::XRateLimit => {
            let config = Arc::new(builder.use_headers().finish().expect(CONFIG));
            route()
                .layer(GovernorLayer::<ByUser, StateInformationMiddleware, Body>::new(config))
                .with_state(())
        }
    }
}

/// It always writes the headers of the IETF and `X-RateLimit`.
pub(super) fn axum_governor(limits: Limits) -> Router {
    let (period, burst) = limits.interval();
    let quota = governor::Quota::with_period(period).expect(CONFIG).allow_burst(burst);
    let config = axum_governor::GovernorConfigBuilder::default()
        .with_extractor(AxumGovernorHeader(&X_USER))
        .quota_default(quota.into())
        // It would need a runtime that runs between the rounds.
        .gc_disable()
        .finish()
        .expect(CONFIG);
    route().layer(axum_governor::GovernorLayer::new(config)).with_state(())
}

/// Calls the inner service, as a layer with a service of its own does.
#[derive(Clone, Debug)]
struct Passing<S>(S);

impl<S: Service<Request<Body>>> Service<Request<Body>> for Passing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        self.0.call(request)
    }
}

/// The value of `x-user`, for `tower_governor`.
#[derive(Clone, Copy, Debug)]
struct ByUser;

impl KeyExtractor for ByUser {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let user = request.headers().get(&X_USER).and_then(|user| user.to_str().ok());
        user.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}

pub(super) static X_USER: HeaderName = HeaderName::from_static("x-user");

const THOUSAND: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");
const FIFTY_THOUSAND: NonZeroU32 = NonZeroU32::new(50_000).expect("not zero");
const CONFIG: &str = "quotas here are not zero, and there is a key";
