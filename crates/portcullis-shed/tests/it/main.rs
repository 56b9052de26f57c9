//! Load shedding: which requests are rejected, what they get, and when a request is not in flight any more.
#![allow(clippy::unwrap_used, reason = "helpers of tests may do what tests may")]

mod callers;
mod cost;
mod ends;
mod overload;
mod support;

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use portcullis_core::{Policy, Quota};
use portcullis_shed::{Class, Shed, ShedBody, ShedError, ShedLayer, ShedSettings};
use portcullis_tower::matching::RequestPath;
use portcullis_tower::{Event, EventKind, Global, PolicyExt as _, RateLimitLayer, Reason, Registry};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer as _, Service, ServiceExt as _};

use support::{Probe, registry};

type Answer = Response<ShedBody<Full<Bytes>>>;

/// A service that answers when the test lets it.
#[derive(Clone)]
struct Held(Arc<Semaphore>);

impl Held {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    fn finish(&self, requests: usize) {
        self.0.add_permits(requests);
    }
}

impl Service<Request<String>> for Held {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        let held = Arc::clone(&self.0);
        Box::pin(async move {
            held.acquire().await.unwrap().forget();
            Ok(Response::new(Full::from("done")))
        })
    }
}

fn get(path: &str) -> Request<String> {
    Request::get(path).body(String::new()).unwrap()
}

/// Starts a request, and lets it come as far as it can.
async fn start<S>(service: &Shed<S>, request: Request<String>) -> JoinHandle<Answer>
where
    S: Service<Request<String>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let started = service.clone().oneshot(request);
    let started = tokio::spawn(async move { started.await.unwrap() });
    tokio::task::yield_now().await;
    started
}

/// A layer with rules, whose limit is always the same.
fn of_ten(registry: &Arc<Registry>) -> ShedLayer {
    ShedLayer::new(registry, 10..=10)
        .class(Class::Critical, RequestPath::prefix("/pay"))
        .class(Class::Background, RequestPath::prefix("/report"))
}

#[tokio::test]
async fn the_lowest_class_is_shed_first() {
    let (held, layer) = (Held::new(), of_ten(&registry()));
    let service = layer.layer(held.clone());
    let mut started = Vec::new();
    // Background requests fill half of the limit, default ones 0.8 of it, critical ones all.
    for (path, admitted) in [("/report", 5), ("/search", 3), ("/pay/1", 2)] {
        for _ in 0..admitted {
            started.push(start(&service, get(path)).await);
        }
        let rejected = start(&service, get(path)).await.await.unwrap();
        assert_eq!((rejected.status(), layer.in_flight()), (StatusCode::SERVICE_UNAVAILABLE, started.len()));
    }
    held.finish(10);
    for request in started {
        assert_eq!(request.await.unwrap().status(), 200);
    }
    assert_eq!(layer.in_flight(), 0);
}

#[tokio::test]
async fn shares_of_the_limit_are_set() {
    let layer = of_ten(&registry()).reserve_for_critical(0.0).reserve_from_background(0.9);
    let held = Held::new();
    let service = layer.layer(held.clone());
    let _first = start(&service, get("/report")).await;
    assert_eq!(start(&service, get("/report")).await.await.unwrap().status(), 503);
    let _others = [start(&service, get("/")).await, start(&service, get("/")).await];
    assert_eq!(layer.in_flight(), 3);
}

#[tokio::test]
async fn a_rejection_has_a_spread_retry_after() {
    let layer =
        ShedLayer::new(&registry(), 1..=1).retry_after(Duration::from_secs(2)..=Duration::from_secs(5));
    let service = layer.layer(Held::new());
    let _held = start(&service, get("/")).await;
    let mut waits = Vec::new();
    for _ in 0..50 {
        let mut request = get("/");
        request.headers_mut().insert("accept", "application/problem+json".parse().unwrap());
        let rejected = start(&service, request).await.await.unwrap();
        let mut names: Vec<_> = rejected.headers().keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        assert_eq!((rejected.status().as_u16(), names.as_slice()), (503, &HEADERS.map(str::to_owned)[..]));
        let wait: u64 = rejected.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        let body = rejected.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["retry-after"], wait);
        assert_eq!(problem["detail"], format!("the service is overloaded: retry after {wait} s"));
        assert!(problem["type"].as_str().unwrap().ends_with("#temporary-reduced-capacity"));
        waits.push(wait);
    }
    waits.sort_unstable();
    waits.dedup();
    assert_eq!(waits, [2, 3, 4, 5]);
}

const HEADERS: [&str; 3] = ["cache-control", "content-type", "retry-after"];

#[tokio::test]
async fn a_grpc_call_is_shed_with_a_pushback() {
    let layer =
        ShedLayer::new(&registry(), 1..=1).retry_after(Duration::from_secs(3)..=Duration::from_secs(3));
    let service = layer.layer(Held::new());
    let _held = start(&service, get("/")).await;
    let mut call = get("/a.B/C");
    *call.method_mut() = Method::POST;
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let rejected = start(&service, call).await.await.unwrap();
    assert_eq!(rejected.status(), 200);
    let headers = rejected.headers();
    assert_eq!(
        (&headers["grpc-status"], &headers["grpc-retry-pushback-ms"]),
        (&"14".parse().unwrap(), &"3000".parse().unwrap())
    );
}

#[tokio::test]
async fn an_admitted_request_gets_no_header() {
    let service = of_ten(&registry()).layer(Probe::default());
    let answer = service.oneshot(get("/")).await.unwrap();
    assert!(answer.status() == 200 && answer.headers().is_empty());
}

#[tokio::test]
async fn a_closure_makes_the_response() {
    let layer = ShedLayer::new(&registry(), 1..=1).reject_with(|rejection| {
        assert_eq!(rejection.reason(), Reason::Shed);
        Response::builder().status(529).body("later".into()).unwrap()
    });
    let service = layer.layer(Held::new());
    let _held = start(&service, get("/")).await;
    let rejected = start(&service, get("/")).await.await.unwrap();
    assert_eq!(
        (rejected.status().as_u16(), &rejected.headers()["retry-after"]),
        (529, &"1".parse().unwrap())
    );
}

#[tokio::test]
async fn requests_that_wait_for_a_concurrency_limit_are_counted() {
    let (held, layer) = (Held::new(), ShedLayer::new(&registry(), 4..=4).reserve_for_critical(0.0));
    let service = layer.layer(ConcurrencyLimitLayer::new(1).layer(held.clone()));
    let started = [
        start(&service, get("/")).await,
        start(&service, get("/")).await,
        start(&service, get("/")).await,
        start(&service, get("/")).await,
    ];
    assert_eq!(layer.in_flight(), 4, "one in the handler, three in front of it");
    assert_eq!(start(&service, get("/")).await.await.unwrap().status(), 503);
    held.finish(4);
    for request in started {
        assert_eq!(request.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_request_that_is_shed_keeps_nothing_ready() {
    let held = Held::new();
    let inner = ConcurrencyLimitLayer::new(2).layer(held.clone());
    let layer = ShedLayer::new(&registry(), 1..=1);
    let mut service = layer.layer(inner.clone());
    let _first = start(&service, get("/")).await;
    let rejected = service.ready().await.unwrap().call(get("/")).await.unwrap();
    assert_eq!(rejected.status(), 503);
    // The second permit of the inner service is free, although the connection of that client is open.
    assert!(pin!(inner.clone().ready()).poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[tokio::test]
async fn only_an_instance_that_is_ready_is_called() {
    let mut service = of_ten(&registry()).layer(Probe::default());
    for _ in 0..3 {
        assert_eq!(service.ready().await.unwrap().call(get("/")).await.unwrap().status(), 200);
    }
    // A clone was not polled.
    assert_eq!(service.clone().call(get("/")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn streams_cannot_lock_the_service() {
    let layer = ShedLayer::new(&registry(), 2..=2);
    let service = layer.layer(Probe::default());
    let mut streams = Vec::new();
    for _ in 0..5 {
        // None waits for its head, so one more is admitted, also of the lowest class.
        streams.push(service.clone().oneshot(get("/")).await.unwrap());
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(layer.in_flight(), 5);
}

#[tokio::test]
async fn a_shadow_layer_rejects_nothing() {
    let (registry, seen) = (registry(), Arc::new(Mutex::new(Vec::new())));
    let events = Arc::clone(&seen);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        events.lock().unwrap().push(format!("{:?}", event.kind));
    }));
    let held = Held::new();
    let layer = ShedLayer::new(&registry, 1..=1).shadow();
    let service = layer.layer(held.clone());
    let started = [start(&service, get("/")).await, start(&service, get("/")).await];
    assert_eq!(layer.in_flight(), 2);
    assert_eq!(*seen.lock().unwrap(), ["Shed { class: Default, limit: 1, in_flight: 1, is_shadow: true }"]);
    held.finish(2);
    for request in started {
        assert_eq!(request.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_request_that_is_shed_is_an_event_and_not_charged() {
    let (registry, seen) = (registry(), Arc::new(Mutex::new(Vec::new())));
    let events = Arc::clone(&seen);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        let text = match event.kind {
            EventKind::Shed { class, limit, in_flight, is_shadow } => {
                format!("shed {} {in_flight} of {limit} {is_shadow}", class.as_str())
            }
            EventKind::Rejected { reason, .. } => format!("rejected {reason:?}"),
            EventKind::Admitted { decisions } => format!("admitted, {} left", decisions[0].remaining()),
            other => panic!("{other:?}"),
        };
        events.lock().unwrap().push(text);
    }));
    let held = Held::new();
    let limit = RateLimitLayer::new(
        Arc::clone(&registry),
        Policy::fixed_window("all", Quota::per_day(10)).by(Global),
    );
    let layer = ShedLayer::new(&registry, 1..=1);
    let service = layer.layer(tower::ServiceBuilder::new().layer(limit).service(held.clone()));
    let first = tokio::spawn(service.clone().oneshot(get("/")));
    tokio::task::yield_now().await;
    assert_eq!(service.clone().oneshot(get("/")).await.unwrap().status(), 503);
    held.finish(2);
    drop(first.await);
    assert_eq!(service.oneshot(get("/")).await.unwrap().status(), 200);
    let expected = ["admitted, 9 left", "shed default 1 of 1 false", "rejected Shed", "admitted, 8 left"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_limiter_that_is_off_sheds_nothing() {
    let layer = ShedLayer::new(&Arc::new(Registry::off()), 1..=1);
    let service = layer.layer(Held::new());
    let _started = [start(&service, get("/")).await, start(&service, get("/")).await];
    assert_eq!(layer.in_flight(), 0);
}

#[test]
fn figures_are_those_of_the_layers_that_exist() {
    let registry = registry();
    let figures = || {
        let mut figures = Vec::new();
        registry.figures(&mut |figure| figures.push((figure.name, figure.value)));
        figures.retain(|(name, _)| name.starts_with("shed"));
        figures
    };
    assert_eq!(figures(), []);
    let layers = [ShedLayer::new(&registry, 3..=10), ShedLayer::new(&registry, 4..=10)];
    assert_eq!(figures(), [("shed_limit", 7), ("shed_in_flight", 0)]);
    drop(layers);
    assert_eq!(figures(), []);
}

#[test]
fn options_out_of_range_are_errors() {
    let mistakes = |settings: ShedSettings| -> Vec<ShedError> {
        ShedLayer::try_new(&registry(), settings).unwrap_err().into_iter().collect()
    };
    #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
    for limit in [0..=1, 2..=1, 1..=1_000_001] {
        let (floor, ceiling) = (*limit.start(), *limit.end());
        assert_eq!(mistakes(limit.into()), [ShedError::Range { floor, ceiling }]);
    }
    let right = || ShedSettings::from(1..=1_000_000);
    for share in [-0.1, 1.0, f64::INFINITY] {
        let wrong = ShedSettings { reserved_for_critical: share, reserved_from_background: share, ..right() };
        assert_eq!(mistakes(wrong), [ShedError::Share { share }, ShedError::Share { share }]);
    }
    let [error] = mistakes(ShedSettings { tolerated_latency: 1.0, ..right() }).try_into().unwrap();
    assert_eq!(
        error.to_string(),
        "a latency of 1 times that without load cannot be tolerated: use a ratio from 1.1 to 10"
    );
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(2));
    let reversed = ShedError::RetryAfter { shortest: long, longest: short };
    assert_eq!(mistakes(ShedSettings { retry_after: long..=short, ..right() }), [reversed]);
    let far = ShedSettings { retry_after: short..=Duration::from_secs(4_000), ..right() };
    let [error] = mistakes(far).try_into().unwrap();
    assert_eq!(error.to_string(), "retries cannot be spread over 3999s: use at most 3600s");
}

/// Each setting is wrong.
fn wrong() -> ShedSettings {
    ShedSettings {
        limit: 0..=1,
        reserved_for_critical: f64::NAN,
        reserved_from_background: -1.0,
        tolerated_latency: 11.0,
        retry_after: Duration::from_secs(2)..=Duration::from_secs(1),
    }
}

#[test]
fn all_mistakes_are_returned_at_once() {
    let registry = registry();
    let mistakes = ShedLayer::try_new(&registry, wrong()).unwrap_err();
    assert!(matches!(
        *mistakes,
        [
            ShedError::Range { floor: 0, ceiling: 1 },
            ShedError::Share { .. },
            ShedError::Share { share: -1.0 },
            ShedError::Tolerance { ratio: 11.0 },
            ShedError::RetryAfter { .. },
        ]
    ));
    registry.figures(&mut |figure| assert!(!figure.name.starts_with("shed"), "no layer is made"));
}

#[test]
#[should_panic(expected = "use a fraction from 0, and below 1; a latency of 11 times")]
fn literal_panics_with_all_mistakes() {
    let _ = ShedLayer::new(&registry(), wrong());
}

#[test]
#[should_panic(expected = "1.5 of a limit cannot be set aside")]
fn literal_option_out_of_range_panics() {
    let _ = ShedLayer::new(&registry(), 1..=10).reserve_for_critical(1.5);
}
