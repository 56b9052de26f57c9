//! What refers to a policy after the admission keeps the quota of the caller.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::{Clock, FailureMode, Policy, Quota, Secret, Timestamp};
use portcullis_memory::Fallback;
use portcullis_tower::{Charge, CheckBuilder, PolicyExt as _, RateLimitLayer, Registry};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{FREE, PRO, by_account, daily, limit, quota_of, sent_by, setup};
use crate::probe::{probed, send};
use crate::support::{Mode, TestStore};

/// The charge of a request, kept beyond its response.
pub(crate) async fn charge_of(layer: &RateLimitLayer, request: Request<String>) -> Charge {
    let kept = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&kept);
    let service = layer.clone().with_charge().layer(service_fn(move |mut request: Request<String>| {
        *seen.lock().unwrap() = request.extensions_mut().remove::<Charge>();
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(String::new())))
    }));
    assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
    let charge = kept.lock().unwrap().take();
    charge.unwrap()
}

/// With a larger quota of its own.
fn larger() -> Policy {
    Policy::fixed_window("daily", Quota::per_day(200)).caller_quotas(Quota::per_day(10), PRO)
}

#[tokio::test]
async fn a_charge_keeps_the_quota_after_a_change_of_the_policy() {
    let setup = setup();
    let layer = setup.layer(daily());
    let charge = charge_of(&layer, sent_by("ada", Some(PRO))).await;
    for changed in [false, true] {
        if changed {
            setup.registry.set_policy(larger()).unwrap();
        }
        let used = if changed { 310 } else { 1 };
        let decision = charge.charge_more(299).await.unwrap();
        assert_eq!((decision.limit(), decision.remaining()), (5_000, 5_000 - used - 299));
        let message = charge.check(5).await.unwrap();
        assert_eq!((message.limit(), message.remaining()), (5_000, 5_000 - used - 304));
        let mut meter = charge.meter(20);
        meter.check(5).await.unwrap();
        meter.finish().await.unwrap();
    }
    let settled = charge.settle(400).await.unwrap().decision;
    assert_eq!((settled.limit(), settled.remaining()), (5_000, 4_600));
    // A caller without a plan has the new quota, and a downgrade applies with the next request.
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, sent_by("bob", None)).await.header("x-ratelimit-limit"), Some("200"));
    let downgraded = send(&service, sent_by("ada", Some(FREE))).await;
    assert_eq!((downgraded.status, downgraded.header("x-ratelimit-limit")), (429, Some("100")));
}

#[tokio::test]
async fn refunds_free_what_was_charged_at_the_rate_of_the_caller() {
    for settled in [0, 10] {
        let setup = setup();
        let (slow, fast) = (Quota::per_minute(60).burst(60), Quota::per_minute(6_000).burst(6_000));
        let bucket = Policy::token_bucket("bucket", slow).caller_quotas(slow, fast);
        let layer = setup.layer_of(limit(bucket).cost(50));
        let charge = charge_of(&layer, sent_by("ada", Some(fast))).await;
        assert_eq!(charge.decision().remaining(), 5_950);
        setup.registry.set_policy(Policy::token_bucket("bucket", slow).caller_quotas(slow, fast)).unwrap();
        let decision = charge.settle(settled).await.unwrap().decision;
        assert_eq!((decision.limit(), decision.remaining()), (6_000, 6_000 - settled));
        let next = charge_of(&layer, sent_by("ada", Some(fast))).await;
        assert_eq!(next.decision().remaining(), 5_950 - settled);
        setup.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn reservations_are_settled_with_the_quota_of_the_caller() {
    let setup = setup();
    let layer = setup.layer_of(limit(daily()).reserve(1_000));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        request.extensions().get::<portcullis_tower::Usage>().unwrap().add(300);
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    for remaining in ["4000", "3700"] {
        let response = service.clone().oneshot(sent_by("ada", Some(PRO))).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
        http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    }
    let response = service.oneshot(sent_by("bob", None)).await.unwrap();
    assert_eq!(response.status(), 400, "1000 units never fit into 100");
}

#[tokio::test]
async fn a_changed_policy_asks_for_the_quota_anew() {
    let setup = setup();
    let (service, _) = probed(&setup.layer(daily()));
    let limit = async |quota| {
        let answer = send(&service, sent_by("ada", quota)).await;
        answer.header("x-ratelimit-limit").unwrap().to_owned()
    };
    assert_eq!((limit(None).await, limit(Some(PRO)).await), ("100".into(), "5000".into()));
    setup.registry.set_policy(larger()).unwrap();
    assert_eq!((limit(None).await, limit(Some(PRO)).await), ("200".into(), "5000".into()));
    // The new policy declares less.
    let narrow = Policy::fixed_window("daily", FREE).caller_quotas(FREE, FREE);
    setup.registry.set_policy(narrow).unwrap();
    assert_eq!(limit(Some(PRO)).await, "100");
    assert_eq!(setup.refusals.take().len(), 1);
    setup.registry.set_policy(daily()).unwrap();
    assert_eq!(limit(Some(PRO)).await, "5000");
}

/// The clock of a store that is set by hand.
struct StoreClock(Arc<TestStore>);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.micros.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn the_fallback_decides_with_the_quota_of_the_caller() {
    for mode in [Mode::Down, Mode::DownLater] {
        let store = Arc::<TestStore>::default();
        let fallback = Fallback::builder(Arc::clone(&store)).clock(StoreClock(Arc::clone(&store))).build();
        let registry = Arc::new(Registry::new(Arc::new(fallback), Secret::published()));
        let policy = Policy::fixed_window("daily", FREE)
            .on_store_failure(FailureMode::local(2))
            .caller_quotas(Quota::per_day(10), PRO);
        let layer = RateLimitLayer::new(registry, policy.by(by_account()).quota(quota_of));
        let (service, _) = probed(&layer);
        store.set(mode);
        for (id, quota, limit) in [("ada", Some(PRO), "2500"), ("bob", None, "50")] {
            let answer = send(&service, sent_by(id, quota)).await;
            assert_eq!(answer.header("x-ratelimit-degraded"), Some("true"));
            assert_eq!(answer.header("x-ratelimit-limit"), Some(limit));
        }
        store.set(Mode::Ready);
        let answer = send(&service, sent_by("ada", Some(PRO))).await;
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("4999"));
    }
}

#[tokio::test]
async fn a_check_of_a_handler_has_the_quota_of_the_caller() {
    let setup = setup();
    let (mails, registry) = (daily(), &setup.registry);
    let check = |quota: Option<Quota>, units| {
        CheckBuilder::new(registry, &mails).by(|key| key.part("account", b"acme")).quota(quota).cost(units)
    };
    assert_eq!(check(None, 100).await.unwrap().decision().limit(), 100);
    let denied = check(None, 1).await.unwrap_err();
    assert_eq!(denied.decision().unwrap().limit(), 100);
    let charge = check(Some(PRO), 900).await.unwrap();
    assert_eq!((charge.decision().limit(), charge.decision().remaining()), (5_000, 4_000));
    assert_eq!(charge.check(1_000).await.unwrap().remaining(), 3_000);
    let denied = check(Some(Quota::per_day(10)), 1).await.unwrap_err();
    assert_eq!(denied.into_http().headers()["x-ratelimit-limit"], "10");
    assert_eq!(check(Some(Quota::per_hour(1)), 0).await.unwrap().decision().limit(), 100);
    assert_eq!(setup.refusals.take().len(), 1);
}
