//! Requests to a service that answers at once, through the layer, with state in memory.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use http::{Request, Response, StatusCode};
use metrics_exporter_prometheus::PrometheusBuilder;
use portcullis_core::{Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_metrics::Metrics;
use portcullis_shed::{Class, ShedLayer};
use portcullis_tower::matching::RequestPath;
use portcullis_tower::{Header, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry};
use tower_layer::Layer as _;
use tower_service::Service;

use crate::{TIMES, WARM_UP, case};

pub(crate) fn cases() {
    let (plenty, nothing) = (Quota::per_second(10_000_000).burst(1_000), Quota::per_week(1));
    let (all, none) = (RateLimitHeaders::X_RATELIMIT, RateLimitHeaders::NONE);
    for (name, layer, status) in [
        ("allowed, X-RateLimit headers", layer(plenty).headers(all), StatusCode::OK),
        ("allowed, no headers", layer(plenty).headers(none), StatusCode::OK),
        ("allowed, no headers, with charge", layer(plenty).headers(none).with_charge(), StatusCode::OK),
        ("allowed, no headers, with metrics", with_metrics(plenty).headers(none), StatusCode::OK),
        (
            "rejected, X-RateLimit headers, with metrics",
            with_metrics(nothing).headers(all),
            StatusCode::TOO_MANY_REQUESTS,
        ),
        ("rejected, X-RateLimit headers", layer(nothing).headers(all), StatusCode::TOO_MANY_REQUESTS),
        ("two policies, X-RateLimit headers", with_window(layer(plenty)).headers(all), StatusCode::OK),
        ("two policies, no headers", with_window(layer(plenty)).headers(none), StatusCode::OK),
    ] {
        let mut service = layer.layer(Found);
        // Uses up what is not plenty.
        call(&mut service, request());
        let mut requests: Vec<_> = (0..WARM_UP + TIMES).map(|_| request()).collect();
        case(&format!("layer: {name}"), || {
            let request = requests.pop().expect("there is one for each iteration");
            assert_eq!(call(&mut service, request), status, "{name}");
        });
    }
}

/// A layer with lists of paths, and requests for a path with one reading and with several.
pub(crate) fn list_cases() {
    let layer = layer(Quota::per_second(10_000_000).burst(1_000))
        .headers(RateLimitHeaders::NONE)
        .deny([RequestPath::prefix("/admin"), RequestPath::prefix("/internal")])
        .except(RequestPath::exact("/health"))
        .except(RequestPath::exact("/ready"));
    let mut service = layer.layer(Found);
    for (name, path) in [("one reading", "/api/v1/orders/17"), ("several readings", "/api/v1//orders/%31%37")]
    {
        let mut requests: Vec<_> = (0..WARM_UP + TIMES).map(|_| request_for(path)).collect();
        case(&format!("layer: lists of paths, {name}"), || {
            let request = requests.pop().expect("there is one for each iteration");
            assert_eq!(call(&mut service, request), StatusCode::OK, "{name}");
        });
    }
}

/// The layer that sheds load, around a service that copes with it.
pub(crate) fn shed_cases() {
    let layer = ShedLayer::new(&registry(), 100..=1_000)
        .class(Class::Critical, |parts: &Parts| parts.uri.path() == "/pay");
    let mut service = layer.layer(Found);
    let mut requests: Vec<_> = (0..WARM_UP + TIMES).map(|_| request()).collect();
    case("shed: admitted", || {
        let request = requests.pop().expect("there is one for each iteration");
        assert_eq!(call(&mut service, request), StatusCode::OK);
    });
}

fn layer(quota: Quota) -> RateLimitLayer {
    layer_of(registry(), quota)
}

/// Adds a second policy, which is decided in the same call of the store.
fn with_window(layer: RateLimitLayer) -> RateLimitLayer {
    layer.and(Policy::fixed_window("daily", Quota::per_day(1_000_000)))
}

/// Like [`layer`], but with metrics that an exporter for Prometheus has.
fn with_metrics(quota: Quota) -> RateLimitLayer {
    let registry = registry();
    Metrics::with_recorder(PrometheusBuilder::new().build_recorder()).observe(&registry);
    layer_of(registry, quota)
}

fn registry() -> Arc<Registry> {
    let secret = Secret::random_for_this_process(*b"a secret of ours");
    Arc::new(Registry::new(Arc::new(MemoryStore::new()), secret))
}

fn layer_of(registry: Arc<Registry>, quota: Quota) -> RateLimitLayer {
    RateLimitLayer::new(registry, Policy::gcra("search", quota).by(Header::named("x-user")))
}

fn request() -> Request<String> {
    request_for("/")
}

fn request_for(path: &str) -> Request<String> {
    let request = Request::get(path).header("x-user", "ada");
    request.body(String::new()).expect("the parts of the request are valid")
}

/// The status of the response, which is dropped.
fn call<S, B>(service: &mut S, request: Request<String>) -> StatusCode
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready(), "the service is always ready");
    let future = pin!(service.call(request));
    match future.poll(&mut context) {
        Poll::Ready(Ok(response)) => response.status(),
        Poll::Ready(Err(never)) => match never {},
        Poll::Pending => unreachable!("memory answers at once"),
    }
}

#[derive(Clone, Debug)]
struct Found;

impl Service<Request<String>> for Found {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}
