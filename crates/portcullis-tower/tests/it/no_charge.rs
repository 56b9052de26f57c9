//! Layers that leave no charge in requests, as they do by default.

use std::convert::Infallible;
use std::future::Ready;
use std::mem;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::Full;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    Charge, Event, EventKind, Global, Limit, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::probe::{Probe, request, send};
use crate::support::{Mode, TestStore, registry_of};

fn layer(registry: &Arc<Registry>, policy: &'static str, limit: u64) -> RateLimitLayer {
    let policy = Policy::fixed_window(policy, Quota::per_day(limit));
    RateLimitLayer::new(Arc::clone(registry), policy.by(Global))
}

type Body = Full<bytes::Bytes>;

async fn answer(_: Request<String>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::default()))
}

/// Records the names of admissions and double charges.
fn record(registry: &Registry) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        let line = match event.kind {
            EventKind::Admitted { decisions } => format!("admitted {}", decisions[0].remaining()),
            EventKind::ChargedTwice { policy } => format!("charged twice {policy}"),
            _ => return,
        };
        recorded.lock().unwrap().push(line);
    }));
    events
}

#[tokio::test]
async fn a_request_has_no_charge() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(store);
        let events = record(&registry);
        let service = layer(&registry, "all", 2).layer(service_fn(async |request: Request<String>| {
            assert!(request.extensions().get::<Charge>().is_none());
            answer(request).await
        }));
        for remaining in ["1", "0"] {
            let response = service.clone().oneshot(request(&[])).await.unwrap();
            assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
        }
        assert_eq!(service.oneshot(request(&[])).await.unwrap().status(), 429);
        assert_eq!(*events.lock().unwrap(), ["admitted 1", "admitted 0"]);
    }
}

#[tokio::test]
async fn the_decision_is_in_the_response_where_it_was_asked_for() {
    let registry = registry_of(Arc::default());
    for headers in [RateLimitHeaders::NONE, RateLimitHeaders::X_RATELIMIT] {
        let layer = layer(&registry, "all", 9).headers(headers);
        let service = layer.layer(Probe::default());
        assert_eq!(send(&service, request(&[])).await.in_response, None);
        let service = layer.decision_in_response().layer(Probe::default());
        let answer = send(&service, request(&[])).await;
        assert_eq!(answer.in_response.unwrap().policy().as_str(), "all");
        assert_eq!(answer.seen, None);
    }
}

#[tokio::test]
async fn nested_layers_notice_a_common_policy() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(store);
        let events = record(&registry);
        let policy = Policy::fixed_window("all", Quota::per_day(99));
        let outer = RateLimitLayer::new(Arc::clone(&registry), policy.by(Global));
        for (outer, noticed) in [(outer.clone().with_charge(), 20), (outer, 16)] {
            let service = (outer, layer(&registry, "all", 99)).layer(service_fn(answer));
            for _ in 0..20 {
                service.clone().oneshot(request(&[])).await.unwrap();
            }
            let events = mem::take(&mut *events.lock().unwrap());
            assert_eq!(events[1], "charged twice all", "{mode:?}");
            let found = events.iter().filter(|event| *event == "charged twice all").count();
            assert_eq!((found, events.len()), (noticed, 40 + noticed), "{mode:?}");
        }
    }
}

#[tokio::test]
async fn layers_side_by_side_or_of_other_policies_are_not_nested() {
    let registry = registry_of(Arc::default());
    let events = record(&registry);
    let outer = layer(&registry, "outer", 9);
    let service = (outer.clone(), layer(&registry, "inner", 9)).layer(service_fn(answer));
    service.oneshot(request(&[])).await.unwrap();
    outer.layer(service_fn(answer)).oneshot(request(&[])).await.unwrap();
    assert_eq!(*events.lock().unwrap(), ["admitted 8", "admitted 8", "admitted 7"]);
}

#[tokio::test]
async fn an_admission_is_emitted_once_with_shadow_policies() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(store);
        let events = record(&registry);
        let planned = Policy::fixed_window("planned", Quota::per_day(9));
        let layer = layer(&registry, "all", 9).and(Limit::new(planned).shadow());
        layer.layer(service_fn(answer)).oneshot(request(&[])).await.unwrap();
        assert_eq!(*events.lock().unwrap(), ["admitted 8"], "{mode:?}");
    }
}

async fn panicking(_: Request<String>) -> Result<Response<Body>, Infallible> {
    panic!("the handler is broken")
}

#[tokio::test]
async fn after_a_panic_the_next_request_is_not_nested() {
    let registry = registry_of(Arc::default());
    let events = record(&registry);
    let layer = layer(&registry, "all", 9);
    // A task of this thread: when it is polled, and then when the inner service is called.
    assert!(tokio::spawn(layer.layer(service_fn(panicking)).oneshot(request(&[]))).await.is_err());
    let called = service_fn(|_: Request<String>| -> Ready<Result<Response<Body>, Infallible>> {
        panic!("the service is broken")
    });
    assert!(tokio::spawn(layer.layer(called).oneshot(request(&[]))).await.is_err());
    layer.layer(service_fn(answer)).oneshot(request(&[])).await.unwrap();
    assert_eq!(*events.lock().unwrap(), ["admitted 8", "admitted 7", "admitted 6"]);
}

#[tokio::test]
async fn the_innermost_layer_decides_about_the_headers() {
    let registry = registry_of(Arc::default());
    let (outer, inner) = (|| layer(&registry, "outer", 9), || layer(&registry, "inner", 5));
    let service = (outer(), inner()).layer(service_fn(answer));
    let response = service.oneshot(request(&[])).await.unwrap();
    assert_eq!(response.headers()["x-ratelimit-limit"], "5");
}
