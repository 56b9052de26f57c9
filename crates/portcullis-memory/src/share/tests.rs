use std::time::Duration;

use portcullis_core::{ManualClock, Quota, Retry, Secret};

use super::*;

fn store(clock: &ManualClock, instances: u32) -> InstanceShare<ManualClock> {
    InstanceShare::new(MemoryStore::builder().clock(clock.clone()).build(), instances)
}

fn key() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    hasher.finish().unwrap()
}

fn check(store: &impl Store, policy: &Policy, cost: u64) -> Outcome {
    store.check(Checks::one(policy.clone(), key(), cost)).into_ready().unwrap().unwrap()
}

fn policies() -> [Policy; 6] {
    let quota = Quota::per_minute(40);
    [
        Policy::token_bucket("token bucket", quota.burst(20)),
        Policy::gcra("gcra", quota.burst(20)),
        Policy::leaky_bucket("leaky bucket", quota.burst(20)),
        Policy::fixed_window("fixed window", quota),
        Policy::sliding_window("sliding window", quota),
        Policy::sliding_log("sliding log", quota),
    ]
}

#[test]
fn every_algorithm_decides_like_its_share() {
    for policy in policies() {
        let clock = ManualClock::default();
        let (shared, plain) = (store(&clock, 4), MemoryStore::builder().clock(clock.clone()).build());
        let share = policy.share_among(NonZeroU32::new(4).unwrap()).unwrap();
        for step in 0..40 {
            clock.advance(Duration::from_millis(step * 250));
            let outcome = check(&shared, &policy, 1 + step % 2);
            let expected = check(&plain, &share, 1 + step % 2);
            assert_eq!(outcome.decisions(), expected.decisions(), "{} {step}", policy.name());
            assert_eq!(outcome.checks().iter().next().unwrap().policy, policy);
            let now = shared.check_now(&policy, key(), 0).unwrap().unwrap();
            assert_eq!(now.decision, plain.check_now(&share, key(), 0).unwrap().unwrap().decision);
        }
    }
}

#[test]
fn one_instance_has_the_whole_limit() {
    for policy in policies() {
        let shared = store(&ManualClock::default(), 1);
        assert_eq!(check(&shared, &policy, 0).decision().limit(), policy.strategy().limit());
    }
}

#[test]
fn receipts_keep_the_whole_policy_through_corrections() {
    for policy in policies() {
        let shared = store(&ManualClock::default(), 4);
        let receipt = check(&shared, &policy, 4).into_receipts().next().unwrap();
        assert_eq!(receipt.policy(), &policy);
        let settled = shared.settle(receipt, 1).into_ready().unwrap().unwrap();
        let limit = settled.decision.limit();
        assert_eq!(settled.decision.remaining(), limit - 1, "{}", policy.name());
        let receipt = settled.receipt.unwrap();
        assert_eq!(receipt.policy(), &policy);
        assert_eq!(shared.refund(receipt).into_ready().unwrap().unwrap().remaining(), limit);
        assert!(check(&shared, &policy, 2).is_allowed());
        shared.reset(&policy, key()).into_ready().unwrap().unwrap();
        assert_eq!(check(&shared, &policy, 0).decision().remaining(), limit);
    }
}

#[test]
fn several_policies_are_charged_together_or_not_at_all() {
    let shared = store(&ManualClock::default(), 4);
    let (hour, day) =
        (Policy::fixed_window("hour", Quota::per_hour(8)), Policy::gcra("day", Quota::per_day(4).burst(4)));
    let ask = || {
        let checks = Checks::one(hour.clone(), key(), 1).and(day.clone(), key(), 1).unwrap();
        shared.check(checks).into_ready().unwrap().unwrap()
    };
    assert!(ask().is_allowed());
    let denied = ask();
    assert_eq!(denied.decision().policy(), day.name());
    assert_eq!(denied.decisions()[0].remaining(), 1, "a denial charges nothing");
}

#[test]
fn a_cost_above_the_share_never_fits() {
    let shared = store(&ManualClock::default(), 4);
    let policy = Policy::fixed_window("hour", Quota::per_hour(8));
    assert_eq!(check(&shared, &policy, 3).decision().retry(), Some(Retry::Never));
}

#[test]
fn a_share_that_takes_too_long_is_refused() {
    let shared = store(&ManualClock::default(), 1_000);
    let monthly = Policy::fixed_window("monthly", Quota::per(1, Duration::from_hours(30 * 24)));
    let error = shared.register(&monthly).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("policy monthly: a local share among 1000 instances"), "{error}");
    assert!(error.to_string().ends_with("name fewer instances"), "{error}");
    let checks = Checks::one(monthly.clone(), key(), 1);
    assert_eq!(shared.check(checks).into_ready().unwrap().unwrap_err(), error);
    assert_eq!(shared.check_now(&monthly, key(), 1).unwrap().unwrap_err(), error);
}

#[test]
#[should_panic(expected = "a local share among 0 instances: there must be at least 1")]
fn no_instances_panic() {
    let _ = InstanceShare::new(MemoryStore::new(), 0);
}

#[test]
fn permits_are_those_of_the_share() {
    let shared = store(&ManualClock::default(), 4);
    let exports = portcullis_core::Concurrency::new("exports", 9).policy();
    let receipt = check(&shared, &exports, 2).into_receipts().next().unwrap();
    assert!(!check(&shared, &exports, 1).is_allowed());
    assert_eq!(receipt.policy(), &exports);
    let renewed = shared.renew(vec![Renewal::of(&receipt)]).into_ready().unwrap().unwrap();
    assert_eq!(renewed, [Renewed { held: 2, lapsed: 0 }]);
    assert_eq!(shared.refund(receipt).into_ready().unwrap().unwrap().remaining(), 2);
    let few = portcullis_core::Concurrency::new("few", 3).policy();
    let error = shared.register(&few).unwrap_err().to_string();
    assert!(
        error.contains("policy few") && error.contains("less than one unit for each instance"),
        "{error}"
    );
}
