//! The apps: a router of one route, which answers at once, with each of the layers in it or around it.
//!
//! All limiters identify a client by the header `x-user`. The routers have their state, as `axum::serve` gives it to them: without it they
//! would apply their layers to each request.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, Request, Response};
use axum::response::IntoResponse;
use axum::routing::{Route, get};
use axum_governor::Header as AxumGovernorHeader;
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Header;
use portcullis::layer::AxumRateLimitLayer;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use tower::util::MapRequestLayer;
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::errors::GovernorError;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;

use super::calls::App;

/// How much a client may send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limits {
    /// More per client than a measurement sends, refilled slowly enough that no state expires: 1 000 per week, which is
    /// one unit in ten minutes. The state of a client that has sent one request lives as long.
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
    pub(super) fn quota(self) -> Quota {
        match self {
            Self::ManyClients => Quota::per_week(1_000).burst(1_000),
            Self::OneClient => Quota::per_second(10_000_000).burst(1_000),
            Self::OneClientOfThreads => Quota::per_second(1_000_000).burst(50_000),
            Self::OneRequest => Quota::per_week(1).burst(1),
        }
    }

    /// The time in which one unit is refilled, and the burst.
    fn interval(self) -> (Duration, NonZeroU32) {
        let quota = self.quota();
        let units = |units: u64| u32::try_from(units).ok().and_then(NonZeroU32::new).expect(CONFIG);
        let burst = quota.explicit_burst().map(units).expect(CONFIG);
        (quota.period() / units(quota.limit()).get(), burst)
    }
}

/// The headers of an admitted response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Headers {
    None,
    XRateLimit,
}

/// Where the layer of an app is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// In the router, which boxes the service and the future of each of its layers.
    InRouter,
    /// Around the whole router.
    AroundRouter,
}

impl Place {
    /// The router with a layer.
    pub(super) fn app<L>(self, layer: L) -> Box<dyn App>
    where
        L: Layer<Router> + Layer<Route> + Clone + Send + Sync + 'static,
        <L as Layer<Router>>::Service: App,
        <L as Layer<Route>>::Service: Service<Request<Body>> + Clone + Send + Sync + 'static,
        <<L as Layer<Route>>::Service as Service<Request<Body>>>::Response: IntoResponse + 'static,
        <<L as Layer<Route>>::Service as Service<Request<Body>>>::Error: Into<Infallible> + 'static,
        <<L as Layer<Route>>::Service as Service<Request<Body>>>::Future: Send + 'static,
    {
        match self {
            Self::InRouter => Box::new(route().layer(layer).with_state(())),
            Self::AroundRouter => Box::new(Layer::<Router>::layer(&layer, bare())),
        }
    }

    /// The router with `tower_governor`, whose layers with and without headers are of different types.
    pub(super) fn tower_governor(self, limits: Limits, headers: Headers) -> Box<dyn App> {
        match headers {
            Headers::None => {
                let config = governed(limits).finish().expect(CONFIG);
                self.app(GovernorLayer::new(Arc::new(config)))
            }
            Headers::XRateLimit => self.app(tower_governor(limits)),
        }
    }
}

/// The router without a layer.
pub(super) fn bare() -> Router {
    route().with_state(())
}

/// The router with a layer in it.
pub(super) fn within<L>(layer: L) -> Router
where
    L: Layer<Route> + Clone + Send + Sync + 'static,
    L::Service: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    L::Service: Clone + Send + Sync + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
{
    route().layer(layer).with_state(())
}

fn route() -> Router {
    Router::new().route("/", get(async || "found"))
}

pub(super) fn ours(limits: Limits, headers: Headers) -> AxumRateLimitLayer {
    let headers = match headers {
        Headers::None => RateLimitHeaders::NONE,
        Headers::XRateLimit => RateLimitHeaders::X_RATELIMIT,
    };
    layer(limits).headers(headers).for_axum()
}

/// With what no peer has: a handler could read and correct the decision.
pub(super) fn ours_with_charge(limits: Limits) -> AxumRateLimitLayer {
    layer(limits).headers(RateLimitHeaders::NONE).with_charge().for_axum()
}

fn layer(limits: Limits) -> RateLimitLayer {
    Limiter::memory().layer(Policy::gcra("bench", limits.quota()).by(Header::named("x-user")))
}

/// With the headers of `X-RateLimit`.
pub(super) fn tower_governor(limits: Limits) -> GovernorLayer<ByUser, StateInformationMiddleware, Body> {
    GovernorLayer::new(Arc::new(governed(limits).use_headers().finish().expect(CONFIG)))
}

fn governed(limits: Limits) -> GovernorConfigBuilder<ByUser, NoOpMiddleware> {
    let (period, burst) = limits.interval();
    let mut builder = GovernorConfigBuilder::default();
    builder.period(period).burst_size(burst.get()).key_extractor(ByUser)
}

/// It always writes the headers of the IETF and `X-RateLimit`.
pub(super) fn axum_governor(limits: Limits) -> axum_governor::GovernorLayer<String> {
    let (period, burst) = limits.interval();
    let quota = governor::Quota::with_period(period).expect(CONFIG).allow_burst(burst);
    let config = axum_governor::GovernorConfigBuilder::default()
        .with_extractor(AxumGovernorHeader(&X_USER))
        .quota_default(quota.into())
        // It would need a runtime that runs between the rounds.
        .gc_disable()
        .finish()
        .expect(CONFIG);
    axum_governor::GovernorLayer::new(config)
}

/// Does nothing but call the inner service, as a layer with a service of its own does.
pub(super) fn passing() -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Copy> {
    MapRequestLayer::new(std::convert::identity)
}

/// The value of `x-user`, for `tower_governor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByUser;

impl KeyExtractor for ByUser {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let user = request.headers().get(&X_USER).and_then(|user| user.to_str().ok());
        user.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}

pub(super) static X_USER: HeaderName = HeaderName::from_static("x-user");

const CONFIG: &str = "quotas here have small bursts and are not zero, and there is a key";
