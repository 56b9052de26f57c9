//! The default mode: each instance enforces the whole limit by itself.

use std::time::Duration;

use portcullis_core::{Checks, FailureMode, Policy, Quota, Store};

use crate::stage::{Stage, key, now};

const LIMIT: u32 = 12;
const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(LIMIT));

/// How many of a flood on one key pass.
fn flood(store: &impl Store) -> u32 {
    let passes = || now(store.check(Checks::one(DAILY, key(), 1))).unwrap().is_allowed();
    (0..10 * LIMIT).map(|_| u32::from(passes())).sum()
}

#[test]
fn a_policy_without_a_mode_has_its_whole_limit() {
    assert_eq!(DAILY.failure_mode(), FailureMode::default());
    for later in [false, true] {
        let stage = Stage::new(later);
        stage.down(true);
        let first = stage.ask(&DAILY, 1).unwrap();
        let decision = first.decision();
        assert!(decision.is_allowed() && decision.is_degraded() && decision.is_metered());
        assert_eq!((decision.limit(), decision.remaining()), (LIMIT, LIMIT - 1));
        assert_eq!(flood(&stage.store), LIMIT - 1);
        // The next period has a limit of its own, in memory as at the store.
        stage.wait(Duration::from_hours(24));
        assert_eq!(flood(&stage.store), LIMIT);
    }
}

#[test]
fn instances_and_starts_admit_the_limit_once_each() {
    let stage = Stage::new(false);
    let mut running = [stage.another(), stage.another(), stage.another()];
    let before: u32 = running.iter().map(flood).sum();
    assert_eq!(before, LIMIT, "the store is shared");
    stage.down(true);
    let at_first: u32 = running.iter().map(flood).sum();
    assert_eq!(at_first, 3 * LIMIT);
    // A start begins with an empty memory; who goes on running does not.
    for _ in 0..2 {
        running[0] = stage.another();
        assert_eq!(running.iter().map(flood).sum::<u32>(), LIMIT);
    }
    stage.down(false);
    assert_eq!(running.iter().map(flood).sum::<u32>(), 0);
}

#[test]
fn outages_that_come_and_go_open_no_further_budget() {
    let stage = Stage::new(true);
    let mut passed = 0;
    for turn in 0..40 {
        stage.down(turn % 2 == 1);
        passed += (0..LIMIT / 4).filter(|_| stage.ask(&DAILY, 1).unwrap().is_allowed()).count();
        stage.wait(Duration::from_mins(1));
    }
    // The store's, and that of the memory.
    assert_eq!(passed, 2 * usize::try_from(LIMIT).unwrap());
}
