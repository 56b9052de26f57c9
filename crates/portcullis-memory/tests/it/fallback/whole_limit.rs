//! The default mode: each instance enforces the whole limit on its own.

use std::time::Duration;

use portcullis_core::store::{Checks, Store};
use portcullis_core::{FailureMode, Policy, Quota};

use super::env::{Env, key, now};

const LIMIT: u64 = 12;
const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(LIMIT));

/// Floods one key. Returns the number of admitted requests.
fn flood(store: &impl Store) -> u64 {
    let passes = || now(store.check(Checks::one(DAILY, key(), 1))).unwrap().is_allowed();
    (0..10 * LIMIT).map(|_| u64::from(passes())).sum()
}

#[test]
fn a_policy_without_a_mode_has_its_whole_limit() {
    assert_eq!(DAILY.failure_mode(), FailureMode::default());
    for later in [false, true] {
        let env = Env::new(later);
        env.down(true);
        let first = env.ask(&DAILY, 1).unwrap();
        let decision = first.decision();
        assert!(decision.is_allowed() && decision.is_degraded() && decision.is_metered());
        assert_eq!((decision.limit(), decision.remaining()), (LIMIT, LIMIT - 1));
        assert_eq!(flood(&env.store), LIMIT - 1);
        // The next period has its own limit, in memory as in the store.
        env.wait(Duration::from_hours(24));
        assert_eq!(flood(&env.store), LIMIT);
    }
}

#[test]
fn each_instance_and_each_start_admits_the_limit_once() {
    let env = Env::new(false);
    let mut running = [env.another(), env.another(), env.another()];
    let before: u64 = running.iter().map(flood).sum();
    assert_eq!(before, LIMIT, "the store is shared");
    env.down(true);
    let at_first: u64 = running.iter().map(flood).sum();
    assert_eq!(at_first, 3 * LIMIT);
    // A started instance has an empty memory; a running one keeps its state.
    for _ in 0..2 {
        running[0] = env.another();
        assert_eq!(running.iter().map(flood).sum::<u64>(), LIMIT);
    }
    env.down(false);
    assert_eq!(running.iter().map(flood).sum::<u64>(), 0);
}

#[test]
fn repeated_outages_open_no_further_budget() {
    let env = Env::new(true);
    let mut passed = 0;
    for turn in 0..40 {
        env.down(turn % 2 == 1);
        passed += (0..LIMIT / 4).filter(|_| env.ask(&DAILY, 1).unwrap().is_allowed()).count();
        env.wait(Duration::from_mins(1));
    }
    // The store's budget, and that of the memory.
    assert_eq!(passed, 2 * usize::try_from(LIMIT).unwrap());
}
