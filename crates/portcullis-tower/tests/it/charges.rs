//! Charges that handlers change.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use portcullis_core::{Decision, FailureMode, Policy, Quota};
use portcullis_tower::{
    Charge, ChargeError, Global, Header, Limit, OnMissing, PolicyExt as _, RateLimitLayer,
};
use tower::{Layer as _, ServiceExt as _};

use crate::support::{Mode, TestStore, registry, registry_of};

fn requests() -> Policy {
    Policy::fixed_window("requests", Quota::per_hour(10)).on_store_failure(FailureMode::Open)
}

fn bytes() -> Policy {
    Policy::fixed_window("bytes", Quota::per_hour(1_000)).on_store_failure(FailureMode::Open)
}

fn both(store: &Arc<TestStore>) -> RateLimitLayer {
    RateLimitLayer::new(registry_of(Arc::clone(store)), requests().by(Global))
        .with_charge()
        .and(Limit::new(bytes()).cost(100))
}

/// The remaining units under each policy after a handler has run, and the header for the client.
async fn after(layer: &RateLimitLayer, work: impl AsyncFnOnce(Charge)) -> (Vec<u64>, String) {
    let work = Arc::new(Mutex::new(Some(work)));
    let service = layer.layer(tower::service_fn(move |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap().clone();
        let work = work.lock().unwrap().take().unwrap();
        async move {
            work(charge.clone()).await;
            let remaining: Vec<_> = charge.decisions().iter().map(Decision::remaining).collect();
            let mut response = Response::new(());
            response.extensions_mut().insert(remaining);
            Ok::<_, Infallible>(response)
        }
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    let header =
        response.headers().get("x-ratelimit-remaining").map(|value| value.to_str().unwrap().to_owned());
    (response.extensions().get::<Vec<u64>>().unwrap().clone(), header.unwrap_or_default())
}

#[tokio::test]
async fn a_handler_sees_what_is_left() {
    let store = Arc::default();
    let seen = after(&both(&store), async |charge| {
        assert_eq!((charge.decision().policy().as_str(), charge.decision().remaining()), ("requests", 9));
        assert_eq!(charge.for_policy("bytes").unwrap().decision().remaining(), 900);
        assert!(charge.for_policy("nothing").is_none() && charge.outer().is_none());
        assert!(charge.for_policy("bytes").unwrap().for_policy("requests").is_none());
    })
    .await;
    assert_eq!(seen, (vec![9, 900], "9".to_owned()));
}

#[tokio::test]
async fn a_kept_charge_is_not_changed_by_later_requests() {
    let kept = Arc::<Mutex<Vec<Option<Charge>>>>::default();
    let charges = Arc::clone(&kept);
    let layer = RateLimitLayer::new(registry(), requests().by(Global)).with_charge();
    let service = layer.layer(tower::service_fn(move |request: Request<String>| {
        let mut charges = charges.lock().unwrap();
        // The second request leaves its memory to the third.
        let keeps = charges.len() != 1;
        charges.push(request.extensions().get::<Charge>().cloned().filter(|_| keeps));
        async { Ok::<_, Infallible>(Response::new(())) }
    }));
    for _ in 0..4 {
        service.clone().oneshot(Request::new(String::new())).await.unwrap();
    }
    let remaining: Vec<_> =
        kept.lock().unwrap().iter().flatten().map(|charge| charge.decision().remaining()).collect();
    assert_eq!(remaining, [9, 7, 6]);
}

#[tokio::test]
async fn charges_and_refunds_of_a_handler_are_in_the_headers() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let layer = both(&store);
        let seen = after(&layer, async |charge| {
            let more = charge.charge_more(2).await.unwrap();
            assert!(more.is_allowed());
            assert_eq!((more.policy().as_str(), more.remaining()), ("requests", 7));
        })
        .await;
        assert_eq!(seen, (vec![7, 898], "7".to_owned()));

        let seen = after(&layer, async |charge| {
            let bytes = charge.for_policy("bytes").unwrap();
            let settlement = bytes.settle(400).await.unwrap();
            assert_eq!((settlement.decision.remaining(), settlement.uncharged), (498, 0));
            assert_eq!(bytes.settle(1).await, Err(ChargeError::Settled));
            charge.for_policy("requests").unwrap().refund().await.unwrap();
            assert_eq!(charge.refund().await, Err(ChargeError::Settled));
        })
        .await;
        assert_eq!(seen, (vec![7, 498], "7".to_owned()));

        let seen = after(&layer, async |charge| {
            assert!(charge.charge_more(3).await.unwrap().is_allowed());
            charge.refund().await.unwrap();
            assert_eq!(charge.decision().remaining(), 7, "later charges are refunded as well");
            assert_eq!(charge.charge_more(1).await, Err(ChargeError::Settled));
        })
        .await;
        assert_eq!(seen, (vec![7, 498], "7".to_owned()));
    }
}

#[tokio::test]
async fn charge_more_can_be_denied_and_settle_cannot() {
    let store = Arc::default();
    let seen = after(&both(&store), async |charge| {
        let more = charge.charge_more(10).await.unwrap();
        assert!(!more.is_allowed() && more.policy().as_str() == "requests");
        assert!(charge.decision().is_allowed(), "the request was admitted before");
        let settlement = charge.for_policy("requests").unwrap().settle(25).await.unwrap();
        assert_eq!((settlement.decision.remaining(), settlement.uncharged), (0, 5));
    })
    .await;
    assert_eq!(seen, (vec![0, 900], "0".to_owned()));
}

#[tokio::test]
async fn a_charge_may_be_settled_after_the_response() {
    let store = Arc::<TestStore>::default();
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let layer = both(&store);
    let seen = after(&layer, async move |charge| *keep.lock().unwrap() = Some(charge)).await;
    assert_eq!(seen.0, [9, 900]);
    let charge = kept.lock().unwrap().take().unwrap();
    let (one, other) = (charge.clone(), charge);
    let twice = tokio::join!(one.refund(), other.refund());
    assert_eq!([twice.0.is_ok(), twice.1.is_ok()].iter().filter(|ok| **ok).count(), 1, "refunded once");
    assert_eq!(after(&layer, async |_| {}).await.0, [9, 900]);
}

#[tokio::test]
async fn a_peek_can_be_charged_later_and_settled() {
    for (more, cost, left, uncharged) in
        [(4, 9, 1, 0), (4, 3, 7, 0), (4, 4, 6, 0), (0, 9, 1, 0), (0, 0, 10, 0), (10, 12, 0, 0), (0, 25, 0, 5)]
    {
        let layer = RateLimitLayer::new(registry(), requests().by(Global).cost(0)).with_charge();
        let seen = after(&layer, async |charge| {
            assert!(charge.charge_more(more).await.unwrap().is_allowed());
            let settlement = charge.settle(cost).await.unwrap();
            assert_eq!((settlement.decision.remaining(), settlement.uncharged), (left, uncharged));
        })
        .await;
        assert_eq!(seen.0, [left], "{more} and then {cost}");
    }
    // A settlement is charged whether it fits or not.
    let store = Arc::<TestStore>::default();
    let layer = RateLimitLayer::new(
        registry_of(Arc::clone(&store)),
        Policy::gcra("all", Quota::per_second(1).burst(2)).by(Global).cost(0),
    )
    .with_charge();
    for _ in 0..2 {
        assert_eq!(after(&layer, async |charge| drop(charge.settle(2).await.unwrap())).await.0, [0]);
    }
    store.micros.store(3_000_000, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(after(&layer, async |_| {}).await.0, [1], "four units of debt, and three seconds");
}

#[tokio::test]
async fn settling_the_rest_keeps_what_one_policy_settled() {
    let seen = after(&both(&Arc::default()), async |charge| {
        charge.for_policy("bytes").unwrap().settle(400).await.unwrap();
        charge.settle(3).await.unwrap();
    })
    .await;
    assert_eq!(seen.0, [7, 600]);
}

/// Polls once.
fn begin<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    let mut future = Box::pin(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    future
}

#[tokio::test]
async fn a_dropped_settlement_frees_no_unit_that_stays_charged() {
    for (cost, least, most) in [(50, 50, 50), (51, 50, 51), (30, 30, 50), (5, 5, 50)] {
        let store = Arc::<TestStore>::default();
        store.set(Mode::Later);
        let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), bytes().by(Global)).with_charge();
        after(&layer, async |charge| {
            assert!(charge.charge_more(20).await.unwrap().is_allowed());
            assert!(charge.charge_more(29).await.unwrap().is_allowed());
            if cost == 50 {
                charge.settle(cost).await.unwrap();
            } else {
                drop(begin(charge.settle(cost)));
            }
            assert_eq!(charge.settle(cost).await, Err(ChargeError::Settled));
        })
        .await;
        let charged = 999 - after(&layer, async |_| {}).await.0[0];
        assert!((least..=most).contains(&charged), "{charged} of {cost}");
    }
}

#[tokio::test]
async fn units_charged_during_settlement_are_refunded() {
    for cost in [0, 7] {
        let store = Arc::<TestStore>::default();
        store.set(Mode::Later);
        let layer = both(&store);
        let seen = after(&layer, async |charge| {
            let more = begin(charge.charge_more(2));
            charge.for_policy("requests").unwrap().settle(cost).await.unwrap();
            assert_eq!(more.await, Err(ChargeError::Settled));
            assert_eq!(charge.for_policy("bytes").unwrap().decision().remaining(), 900, "all or none");
        })
        .await;
        assert_eq!(seen.0, [10 - cost, 900]);
        assert_eq!(after(&layer, async |_| {}).await.0, [9 - cost, 800]);
    }
    // If the refund fails, the error is returned.
    let store = Arc::<TestStore>::default();
    store.set(Mode::Later);
    after(&both(&store), async |charge| {
        let more = begin(charge.charge_more(2));
        charge.refund().await.unwrap();
        store.set(Mode::Down);
        assert!(matches!(more.await, Err(ChargeError::Store(_))));
    })
    .await;
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_unless_it_failed_before() {
    let store = Arc::<TestStore>::default();
    let fails = Arc::clone(&store);
    let layer = both(&store);
    let seen = after(&layer, async move |charge| {
        fails.set(Mode::Down);
        assert!(matches!(charge.charge_more(1).await, Err(ChargeError::Store(_))));
        assert!(matches!(charge.refund().await, Err(ChargeError::Store(_))));
        assert_eq!(charge.refund().await, Err(ChargeError::Settled), "nothing is refunded twice");
    })
    .await;
    assert_eq!(seen, (vec![9, 900], "9".to_owned()));

    let seen = after(&layer, async |charge| {
        assert!(charge.decision().is_degraded());
        assert!(charge.charge_more(1).await.unwrap().is_degraded());
        let bytes = charge.for_policy("bytes").unwrap();
        assert_eq!((bytes.decision().policy().as_str(), bytes.decision().is_degraded()), ("bytes", true));
        assert!(charge.for_policy("nothing").is_none());
        assert_eq!(bytes.settle(3).await.unwrap().decision.policy().as_str(), "bytes");
        assert_eq!(bytes.settle(3).await, Err(ChargeError::Settled));
        assert_eq!(charge.decision().policy().as_str(), "requests");
        charge.refund().await.unwrap();
    })
    .await;
    assert_eq!(seen, (vec![10, 1_000], String::new()));

    // The first policy that counts the request is decisive, and those that do not count it have no decision.
    let layer = RateLimitLayer::new(
        registry_of(Arc::clone(&store)),
        Policy::gcra("users", Quota::per_hour(9)).by(Header::named("x-user")).on_missing(OnMissing::Exempt),
    )
    .with_charge()
    .and(bytes().by(Global));
    let seen = after(&layer, async |charge| {
        assert!(charge.decision().is_degraded() && charge.for_policy("users").is_none());
        assert_eq!(charge.for_policy("bytes").unwrap().decision().remaining(), 1_000);
    })
    .await;
    assert_eq!(seen.0, [1_000]);
}

#[tokio::test]
async fn nested_layers_link_their_charges() {
    let registry = registry();
    let outer = RateLimitLayer::new(Arc::clone(&registry), bytes().by(Global)).with_charge();
    let inner = RateLimitLayer::new(registry, requests().by(Global)).with_charge();
    let service = (outer.clone(), inner).layer(tower::service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        assert_eq!(charge.decision().policy().as_str(), "requests");
        let outside = charge.outer().unwrap();
        assert_eq!((outside.decision().policy().as_str(), outside.outer().is_none()), ("bytes", true));
        outside.settle(500).await.unwrap();
        Ok::<_, Infallible>(Response::new(()))
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(response.headers()["x-ratelimit-remaining"], "9");
    assert_eq!(after(&outer, async |_| {}).await.0, [499]);
}

#[tokio::test]
async fn nested_charges_of_later_requests_are_their_own() {
    let registry = registry();
    let outer = RateLimitLayer::new(Arc::clone(&registry), bytes().by(Global)).with_charge();
    let inner = RateLimitLayer::new(registry, requests().by(Global)).with_charge();
    let service = (outer, inner).layer(tower::service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        let outside = charge.outer().unwrap();
        let left = [charge.decision().remaining(), outside.decision().remaining()];
        assert!(outside.outer().is_none());
        let mut response = Response::new(());
        response.extensions_mut().insert(left);
        Ok::<_, Infallible>(response)
    }));
    for left in [[9_u64, 999], [8, 998], [7, 997]] {
        let response = service.clone().oneshot(Request::new(String::new())).await.unwrap();
        assert_eq!(response.extensions().get::<[u64; 2]>(), Some(&left));
        assert_eq!(response.headers()["x-ratelimit-remaining"], left[0].to_string());
    }
}

#[test]
fn a_charge_can_be_sent_to_tasks() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn sent<F: Future + Send>(_: F) {}

    shared::<Charge>();
    let _ = |charge: Charge| sent(async move { charge.settle(1).await });
}
