use alloc::string::{String, ToString};
use core::time::Duration;

use crate::{FailureMode, Policy, Quota, Refill, Strategy, TokenBucket};

const SECOND: Duration = Duration::from_secs(1);

fn error(mut policy: Policy, wait: Duration) -> String {
    policy.set_wait(wait).unwrap_err().to_string()
}

fn interval(quota: Quota) -> Policy {
    let bucket = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
    Policy::literal("interval", Strategy::TokenBucket(bucket))
}

#[test]
fn every_strategy_can_wait() {
    let quota = Quota::per_second(10);
    for policy in [
        Policy::token_bucket("a", quota),
        Policy::gcra("a", quota),
        Policy::leaky_bucket("a", quota),
        Policy::fixed_window("a", quota),
        Policy::sliding_window("a", quota),
        Policy::sliding_log("a", quota),
    ] {
        assert_eq!(policy.max_wait(), None);
        let waits = policy.clone().wait_at_most(2 * SECOND);
        assert_eq!(waits.max_wait(), Some(2 * SECOND));
        assert_eq!((waits.digest(), waits.max_lease()), (policy.digest(), None));
        assert_ne!(waits, policy);
        let reserves = !matches!(
            waits.strategy().tag(),
            "fixed_window" | "calendar_window" | "sliding_window" | "sliding_log"
        );
        assert_eq!(waits.strategy().queues(), reserves);
        if matches!(waits.strategy().tag(), "token_bucket" | "gcra") {
            assert_eq!(Policy::new(waits.name().clone(), *waits.strategy()), waits);
        }
    }
}

#[test]
fn each_invalid_wait_has_its_own_error() {
    let policy = || Policy::gcra("a", Quota::per_second(1));
    assert!(error(policy(), Duration::ZERO).starts_with("a wait of at most 0 s is no wait"));
    assert!(error(policy(), Duration::from_nanos(1_500)).contains("whole number of microseconds"));
    assert!(error(policy(), Policy::MAX_WAIT + SECOND).contains("longer than one hour"));
    assert!(policy().set_wait(Policy::MAX_WAIT).is_ok());
    let slow = Policy::gcra("a", Quota::per(1, Quota::MAX_PERIOD));
    assert!(error(slow, SECOND).contains("too long for the burst"));
    let share = Policy::gcra("a", Quota::per(2, Quota::MAX_PERIOD)).on_store_failure(FailureMode::local(2));
    assert!(error(share, SECOND).contains("too long for the burst"));
    let fast = Policy::leaky_bucket("a", Quota::per(Quota::MAX_UNITS, Duration::from_micros(1)));
    assert!(error(fast, SECOND).contains("too long for the burst"));
}

#[test]
fn a_policy_with_a_wait_has_no_lease() {
    let policy = || Policy::fixed_window("a", Quota::per_second(100));
    assert!(error(policy().lease(50), SECOND).contains("leave out the lease or the wait"));
    let leased = policy().wait_at_most(SECOND).set_lease(50).unwrap_err().to_string();
    assert!(leased.contains("cannot be leased"), "{leased}");
}

#[test]
#[should_panic(expected = "at most one hour")]
fn invalid_literal_wait_panics() {
    let _ = Policy::gcra("a", Quota::per_second(1)).wait_at_most(Duration::MAX);
}

#[test]
fn interval_refill_waits_for_whole_intervals() {
    let quota = Quota::per_second(5);
    assert!(error(interval(quota), SECOND / 2).contains("interval of 1s"));
    for (wait, micros) in [(SECOND, 1_000_000), (SECOND * 5 / 2, 2_000_000)] {
        let waits = interval(quota).wait_at_most(wait);
        let Strategy::TokenBucket(bucket) = waits.strategy() else { panic!("{waits:?}") };
        assert_eq!((waits.max_wait(), bucket.meter().wait()), (Some(wait), micros));
        assert_eq!(bucket.refilled(Refill::Greedy).meter().wait(), 0);
    }
}

#[test]
fn a_wait_of_a_leaky_bucket_is_its_queue() {
    let tenth = Policy::leaky_bucket("a", Quota::per_second(10).burst(3)).wait_at_most(2 * SECOND);
    assert_eq!(tenth.strategy().limit(), 21);
    assert_eq!(tenth.clone().wait_at_most(2 * SECOND), tenth);
    let short = Policy::leaky_bucket("a", Quota::per_minute(1)).wait_at_most(SECOND);
    assert_eq!(short.strategy().limit(), 1);
}

#[test]
fn a_share_keeps_the_longest_wait() {
    let policy = Policy::gcra("a", Quota::per_second(8).burst(4)).wait_at_most(SECOND);
    assert_eq!(policy.share(), Some(policy.clone()));
    let share = policy.on_store_failure(FailureMode::local(4)).share().unwrap();
    let Strategy::Gcra(gcra) = share.strategy() else { panic!("{share:?}") };
    assert_eq!((gcra.meter().burst(), gcra.meter().wait()), (1, 1_000_000));
    assert_eq!(share.max_wait(), Some(SECOND));
}
