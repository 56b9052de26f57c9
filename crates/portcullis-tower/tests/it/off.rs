//! Limits that are switched off.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use portcullis_core::store::Checks;
use portcullis_core::{Policy, Quota, Receipt, Secret, Timestamp};
use portcullis_tower::{
    Bearer, Charge, ChargeError, ClientIp, Event, EventKind, Global, KeyError, Lookup, PolicyExt as _,
    RateLimitHeaders, RateLimitLayer, Registry, Shadow, Usage,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::log::log;
use crate::probe::{grpc, probed, request, send};
use crate::support::registry;

fn off() -> Arc<Registry> {
    Arc::new(Registry::off())
}

fn daily() -> Policy {
    Policy::fixed_window("daily", Quota::per_day(2))
}

fn all_headers(layer: RateLimitLayer) -> RateLimitLayer {
    layer.headers(RateLimitHeaders::all()).decision_in_response()
}

#[tokio::test]
async fn every_request_passes_without_a_header() {
    let unreachable = |_: &http::request::Parts| async { Err::<Lookup, _>(KeyError::server("not called")) };
    let layers = [
        RateLimitLayer::new(off(), daily().by(Global).warn_at(0.1)),
        RateLimitLayer::new(off(), daily().by(ClientIp::peer())),
        RateLimitLayer::new(off(), daily().by(Bearer)),
        RateLimitLayer::new(off(), daily().by(Global).cost(1_000)).limit_preflights(),
        RateLimitLayer::new(off(), daily().by_async(unreachable)),
        RateLimitLayer::new(off(), Policy::leaky_bucket("queue", Quota::per_day(1)).by(Global)),
    ];
    for layer in layers.map(all_headers) {
        let (service, probe) = probed(&layer);
        for request in [request(&[]), grpc(&[]), request(&[("authorization", "not a token")])] {
            let answer = send(&service, request).await;
            assert_eq!((answer.status, answer.text.as_str()), (200, "inner"));
            assert!(answer.headers.is_empty() && answer.in_response.is_none());
        }
        assert_eq!(probe.calls(), 3);
    }
}

#[tokio::test]
async fn a_charge_is_there_and_changes_nothing() {
    let total = Policy::token_bucket("total", Quota::per_hour(7));
    let layer = RateLimitLayer::new(off(), daily().by(Global)).with_charge().and(total);
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        let decision = charge.decision();
        assert_eq!((decision.policy().as_str(), decision.limit(), decision.remaining()), ("daily", 2, 2));
        assert!(!decision.is_metered() && !decision.is_degraded() && decision.is_allowed());
        assert_eq!(charge.decisions().len(), 2);
        assert_eq!(charge.for_policy("total").unwrap().decision().remaining(), 7);
        assert!(charge.outer().is_none());
        for _ in 0..3 {
            assert_eq!(charge.charge_more(100).await.unwrap().remaining(), 2);
        }
        assert_eq!(charge.settle(100).await.unwrap().uncharged, 0);
        assert_eq!(charge.refund().await, Err(ChargeError::Settled), "as where limits are on");
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    assert!(service.oneshot(Request::new(String::new())).await.unwrap().headers().is_empty());
}

#[tokio::test]
async fn the_usage_of_a_reservation_is_there() {
    let layer = RateLimitLayer::new(off(), daily().by(Global).reserve(100)).with_charge();
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let usage = request.extensions().get::<Usage>().unwrap();
        usage.for_policy("daily").unwrap().add(7);
        assert_eq!(usage.units(), Some(7));
        assert!(request.extensions().get::<Charge>().unwrap().settle(3).await.is_ok());
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    assert_eq!(service.oneshot(Request::new(String::new())).await.unwrap().status(), 200);
}

#[tokio::test]
async fn layers_leave_no_charge_where_they_leave_none_otherwise() {
    let plain = |registry| RateLimitLayer::new(registry, daily().by(Global)).with_charge();
    let shadow = |registry| RateLimitLayer::new(registry, daily().by(Global).shadow());
    let layers: [&dyn Fn(Arc<Registry>) -> RateLimitLayer; 4] =
        [&plain, &|registry| RateLimitLayer::new(registry, daily().by(Global)), &shadow, &|registry| {
            shadow(registry).and(Policy::gcra("enforced", Quota::per_second(1)))
        }];
    for layer in layers {
        let mut is_there = Vec::new();
        for registry in [registry(), off()] {
            let service = layer(registry).layer(service_fn(async |request: Request<String>| {
                let charge = request.extensions().get::<Charge>();
                let policy = charge.map(|charge| charge.decision().policy().to_string());
                Ok::<_, Infallible>(Response::new(policy.unwrap_or_default()))
            }));
            let body = service.oneshot(Request::new(String::new())).await.unwrap().into_body();
            is_there.push(body.collect().await.unwrap().to_bytes());
        }
        assert_eq!(is_there[0], is_there[1]);
    }
    let layer = shadow(off());
    let service = layer.layer(service_fn(async |request: Request<String>| {
        assert!(request.extensions().get::<Shadow>().is_none(), "a shadow policy is not checked");
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    service.oneshot(Request::new(String::new())).await.unwrap();
}

#[tokio::test]
async fn the_store_allows_everything_and_keeps_nothing() {
    let registry = off();
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    let key = hasher.finish().unwrap();
    for _ in 0..3 {
        let outcome = registry.store().check(Checks::one(daily(), key, 9)).await.unwrap();
        assert!(outcome.is_allowed() && outcome.failure().is_none());
        assert_eq!(outcome.into_receipts().count(), 0);
    }
    assert!(registry.store().reset(&daily(), key).await.is_ok());
    let receipt = || Receipt::blank(daily(), key, Timestamp::EPOCH);
    assert_eq!(registry.store().refund(receipt()).await.unwrap().remaining(), 2);
    let settlement = registry.store().settle(receipt(), 5).await.unwrap();
    assert_eq!((settlement.uncharged, settlement.decision.remaining()), (0, 2));
}

#[tokio::test]
async fn each_request_emits_an_admission_without_decisions() {
    let registry = off();
    let events = Arc::<Mutex<Vec<usize>>>::default();
    let sink = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        let EventKind::Admitted { decisions } = event.kind else { panic!("{event:?}") };
        sink.lock().unwrap().push(decisions.len());
    }));
    let (service, _) = probed(&RateLimitLayer::new(registry, daily().by(Global)));
    for _ in 0..3 {
        send(&service, request(&[])).await;
    }
    assert_eq!(*events.lock().unwrap(), [0, 0, 0]);
}

#[tokio::test]
async fn a_layer_that_is_on_limits_inside_of_one_that_is_off() {
    let limited =
        RateLimitLayer::new(registry(), Policy::fixed_window("inner", Quota::per_hour(1)).by(Global))
            .with_charge();
    let service = (RateLimitLayer::new(off(), daily().by(Global)).with_charge(), limited).layer(service_fn(
        async |request: Request<String>| {
            let charge = request.extensions().get::<Charge>().unwrap();
            assert_eq!(charge.decision().policy().as_str(), "inner");
            Ok::<_, Infallible>(Response::new(String::new()))
        },
    ));
    let first = service.clone().oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(first.headers()["x-ratelimit-remaining"], "0");
    assert_eq!(service.oneshot(Request::new(String::new())).await.unwrap().status(), 429);
}

#[test]
fn switching_off_is_logged_and_conflicts_are_errors() {
    let (log, _guard) = log();
    let registry = off();
    assert_eq!(log.lines(), ["WARN the rate limiter is switched off: every request passes code=PC101"]);
    assert!(registry.register(&daily()).is_ok());
    assert!(registry.register(&Policy::fixed_window("daily", Quota::per_day(3))).is_err());
}
