//! What was charged is freed at the rate of the charge, whatever quota the key has then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use portcullis_core::{Key, ManualClock, Policy, Quota};
use portcullis_tower::{Charge, CheckBuilder, Header, PolicyExt as _, RateLimitLayer, Registry, Usage};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{DAY, limiter, of};
use crate::probe::{probed, send};
use crate::quotas::{charge_of, sent_by};

/// A unit takes a second.
const SLOW: Quota = Quota::per_minute(60).burst(60);
/// A unit takes a hundredth of a second.
const FAST: Quota = Quota::per_minute(6_000).burst(6_000);

fn calls(quota: Quota) -> Policy {
    Policy::gcra("calls", quota).allow_overrides()
}

struct Setup {
    registry: Arc<Registry>,
    _clock: ManualClock,
    ada: Key,
}

impl Setup {
    fn new() -> Self {
        let (registry, clock) = limiter();
        let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
        Self { registry, _clock: clock, ada }
    }

    fn layer(&self, policy: Policy) -> RateLimitLayer {
        self.layer_with_cost(policy, 50)
    }

    fn layer_with_cost(&self, policy: Policy, units: u64) -> RateLimitLayer {
        let limit = policy.by(Header::named("x-user")).cost(units);
        RateLimitLayer::new(Arc::clone(&self.registry), limit).with_charge()
    }

    async fn grant(&self, quota: Quota) {
        self.registry.grant(&calls(SLOW), self.ada, quota).for_duration(DAY).await.unwrap();
    }

    async fn revoke(&self) {
        self.registry.revoke_grant(&calls(SLOW), self.ada).await.unwrap();
    }

    /// The units that remain, after `units` more.
    async fn charge(&self, units: u64) -> u64 {
        let policy = self.registry.policy(calls(SLOW).name()).unwrap();
        let check = CheckBuilder::new(&self.registry, &policy).by_key(self.ada).cost(units);
        check.await.unwrap().decision().remaining()
    }
}

#[tokio::test]
async fn a_refund_is_made_at_the_rate_of_the_grant() {
    for changed in [false, true] {
        for settled in [0, 20] {
            let setup = Setup::new();
            let layer = setup.layer(calls(SLOW));
            setup.registry.register(&calls(SLOW)).unwrap();
            // Ten seconds of the level.
            assert_eq!(setup.charge(10).await, 50);
            setup.grant(FAST).await;
            // Half of a second more.
            let charge = charge_of(&layer, of("ada")).await;
            assert_eq!((charge.decision().limit(), charge.decision().remaining()), (6_000, 4_950));
            setup.revoke().await;
            if changed {
                let faster = Quota::per_minute(120).burst(60);
                setup.registry.set_policy(calls(faster)).unwrap();
            }
            charge.settle(settled).await.unwrap();
            setup.grant(FAST).await;
            assert_eq!(setup.charge(0).await, 5_000 - settled);
        }
    }
}

#[tokio::test]
async fn later_charges_are_refunded_at_their_own_rates() {
    let setup = Setup::new();
    setup.registry.register(&calls(SLOW)).unwrap();
    let layer = setup.layer(calls(SLOW));
    assert_eq!(setup.charge(10).await, 50);
    setup.grant(FAST).await;
    let charge = charge_of(&layer, of("ada")).await;
    assert_eq!(charge.check(50).await.unwrap().remaining(), 4_900);
    setup.revoke().await;
    // Eleven seconds of the level are used.
    assert_eq!(charge.charge_more(5).await.unwrap().remaining(), 44);
    assert_eq!(charge.check(5).await.unwrap().remaining(), 39);
    let mut meter = charge.meter(10);
    meter.check(4).await.unwrap();
    meter.finish().await.unwrap();
    assert_eq!(setup.charge(0).await, 35);
    setup.grant(FAST).await;
    assert_eq!(charge.charge_more(100).await.unwrap().remaining(), 3_400);
    setup.revoke().await;
    assert_eq!(setup.charge(0).await, 34);
    charge.refund().await.unwrap();
    assert_eq!(setup.charge(0).await, 50);
}

#[tokio::test]
async fn any_number_of_rates_takes_bounded_memory() {
    for get_slower in [false, true] {
        let setup = Setup::new();
        setup.registry.register(&calls(SLOW)).unwrap();
        assert_eq!(setup.charge(10).await, 50);
        let charge = charge_of(&setup.layer_with_cost(calls(SLOW), 1), of("ada")).await;
        for step in 0..60 {
            let limit = if get_slower { 300 - step } else { 240 + step };
            setup.grant(Quota::per_minute(limit).burst(limit)).await;
            assert!(charge.charge_more(1).await.unwrap().is_allowed());
        }
        setup.revoke().await;
        assert!(setup.charge(0).await < 40);
        charge.refund().await.unwrap();
        // Charges at more than eight rates are refunded at the higher ones.
        let left = setup.charge(0).await;
        assert!((45..=50).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn a_reservation_is_settled_at_the_rate_of_the_grant() {
    let setup = Setup::new();
    setup.registry.register(&calls(SLOW)).unwrap();
    assert_eq!(setup.charge(10).await, 50);
    setup.grant(FAST).await;
    let calls = calls(SLOW).by(Header::named("x-user")).reserve(50);
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), calls).with_charge();
    let service = layer.layer(service_fn(async |request: Request<String>| {
        request.extensions().get::<Usage>().unwrap().add(20);
        Ok::<_, std::convert::Infallible>(Response::new(Full::new(bytes::Bytes::from_static(b"tokens"))))
    }));
    let response = service.oneshot(of("ada")).await.unwrap();
    assert_eq!(response.headers()["x-ratelimit-remaining"], "4950");
    setup.revoke().await;
    response.into_body().collect().await.unwrap();
    setup.grant(FAST).await;
    assert_eq!(setup.charge(0).await, 4_980);
}

#[tokio::test]
async fn a_change_of_the_policy_changes_no_rate_of_a_refund() {
    let setup = Setup::new();
    setup.registry.register(&calls(FAST)).unwrap();
    assert_eq!(setup.charge(1_000).await, 5_000);
    let charge = charge_of(&setup.layer(calls(FAST)), of("ada")).await;
    assert_eq!(charge.decision().remaining(), 4_950);
    setup.registry.set_policy(calls(SLOW)).unwrap();
    charge.refund().await.unwrap();
    assert_eq!(setup.charge(0).await, 50, "ten seconds, as before");
}

#[tokio::test]
async fn a_plan_that_has_ended_changes_no_rate_of_a_refund() {
    let setup = crate::quotas::setup();
    let bucket = || Policy::token_bucket("bucket", SLOW);
    let layer = setup.layer_of(crate::quotas::limit(bucket().caller_quotas(SLOW, FAST)).cost(50));
    let charges = [
        charge_of(&layer, sent_by("ada", Some(FAST))).await,
        charge_of(&layer, sent_by("ada", Some(FAST))).await,
    ];
    // The policy declares no plans any more.
    setup.registry.set_policy(bucket()).unwrap();
    let remaining = async || {
        let bucket = bucket().by(crate::quotas::by_account()).cost(0);
        let layer = RateLimitLayer::new(Arc::clone(&setup.registry), bucket).with_charge();
        let decision = charge_of(&layer, sent_by("ada", None)).await.decision();
        (decision.remaining(), decision.reset_after())
    };
    assert_eq!(remaining().await, (59, Duration::from_secs(1)));
    charges[1].refund().await.unwrap();
    assert_eq!(remaining().await, (59, Duration::from_millis(500)));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_given_up_is_freed_at_its_own_rate() {
    let setup = Setup::new();
    let queue = || Policy::leaky_bucket("calls", Quota::per_second(1).burst(10)).allow_overrides();
    let layer =
        RateLimitLayer::new(Arc::clone(&setup.registry), queue().by(Header::named("x-user"))).with_charge();
    let (service, _) = probed(&layer);
    let start = tokio::time::Instant::now();
    let order = Arc::new(Mutex::new(Vec::new()));
    let spawn = |name: &'static str| {
        let (service, order) = (service.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            assert_eq!(send(&service, of("ada")).await.status, 200);
            order.lock().unwrap().push((name, start.elapsed().as_millis()));
        })
    };
    let first = spawn("first");
    tokio::task::yield_now().await;
    let second = spawn("second");
    tokio::task::yield_now().await;
    let ten_a_second = Quota::per_second(10).burst(100);
    setup.registry.grant(&queue(), setup.ada, ten_a_second).for_duration(DAY).await.unwrap();
    let leaves = spawn("leaves");
    tokio::task::yield_now().await;
    leaves.abort();
    assert!(leaves.await.is_err());
    let third = spawn("third");
    tokio::task::yield_now().await;
    for request in [first, second, third, spawn("fourth")] {
        request.await.unwrap();
    }
    let expected = [("first", 0), ("second", 1_000), ("third", 2_000), ("fourth", 2_100)];
    assert_eq!(*order.lock().unwrap(), expected);
}

/// A charge that a handler keeps is the same after the grant of its key.
#[tokio::test]
async fn a_settlement_upwards_is_under_the_grant_of_the_charge() {
    let setup = Setup::new();
    setup.registry.register(&calls(SLOW)).unwrap();
    setup.grant(FAST).await;
    let charge: Charge = charge_of(&setup.layer(calls(SLOW)), of("ada")).await;
    setup.revoke().await;
    let settled = charge.settle(1_000).await.unwrap();
    assert_eq!((settled.uncharged, settled.decision.remaining()), (0, 5_000));
    assert_eq!(setup.charge(0).await, 50);
}
