//! Policies that are open for a part of an outage.

use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::store::Checks;

use super::env::{Env, HALF_A_MINUTE, LOCAL, OPEN, OPEN_FOR, key};

#[test]
fn open_for_ends_when_its_time_passed_without_an_answer() {
    let env = Env::new(true);
    for _ in 0..2 {
        assert!(env.ask(&OPEN_FOR, 1).unwrap().failure().is_none());
        env.down(true);
        for _ in 0..30 {
            let outcome = env.ask(&OPEN_FOR, 1).unwrap();
            assert!(outcome.is_allowed() && outcome.decision().is_degraded());
            assert!(!outcome.decision().is_metered());
            assert_eq!(outcome.into_receipts().count(), 0);
            env.wait(Duration::from_secs(1));
        }
        assert_eq!(env.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
        // It is not open with another policy either, nor later.
        let both = Checks::one(LOCAL, key(), 1).and(OPEN_FOR, key(), 1).unwrap();
        assert!(env.check(both).is_err());
        env.wait(Duration::from_hours(1));
        assert!(env.ask(&OPEN_FOR, 1).is_err());
        // Any answer ends the outage.
        env.down(false);
        assert!(env.ask(&OPEN, 0).is_ok());
        env.down(true);
        assert!(env.ask(&OPEN_FOR, 1).is_ok());
        env.down(false);
    }
    assert_eq!(env.store.stats().entries, 0);
}

#[test]
fn open_for_ends_at_a_store_that_denies_and_cannot_charge() {
    ends_despite_denials(None);
    // A store whose stated outage restarts with every denial.
    ends_despite_denials(Some(Duration::ZERO));
}

fn ends_despite_denials(outage: Option<Duration>) {
    let env = Env::with_outage(false, outage);
    assert!(env.ask(&OPEN, 3).unwrap().is_allowed() && env.ask(&OPEN_FOR, 1).unwrap().is_allowed());
    env.faulty.is_full.store(1, Ordering::Relaxed);
    for _ in 0..30 {
        assert!(env.ask(&OPEN_FOR, 1).unwrap().decision().is_degraded());
        // Neither a denial nor a peek shows that the store can charge.
        assert!(!env.ask(&OPEN, 1).unwrap().is_allowed() && env.ask(&OPEN, 0).is_ok());
        env.wait(Duration::from_secs(1));
    }
    assert_eq!(env.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
    // A short time without answers is a separate outage.
    env.down(true);
    assert!(env.ask(&OPEN, 0).is_err());
    env.down(false);
    assert!(!env.ask(&OPEN, 1).unwrap().is_allowed() && env.ask(&OPEN_FOR, 1).is_err());
    assert!(env.ask(&LOCAL, 1).unwrap().is_allowed());
    assert!(env.ask(&OPEN_FOR, 1).unwrap().decision().is_degraded());
}

#[test]
fn the_outage_that_a_store_states_is_used() {
    let just_under = HALF_A_MINUTE.checked_sub(Duration::from_micros(1)).unwrap();
    for (outage, is_open) in [(Duration::ZERO, true), (just_under, true), (HALF_A_MINUTE, false)] {
        let env = Env::with_outage(false, Some(outage));
        env.down(true);
        env.wait(Duration::from_hours(1));
        assert_eq!(env.ask(&OPEN_FOR, 1).is_ok(), is_open);
        env.wait(Duration::from_hours(1));
        assert_eq!(env.ask(&OPEN_FOR, 1).is_ok(), is_open);
    }
}
