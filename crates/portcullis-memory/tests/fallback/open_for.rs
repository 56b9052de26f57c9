//! Policies that are open for so much of an outage.

use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::Checks;

use crate::stage::{HALF_A_MINUTE, LOCAL, OPEN, OPEN_FOR, Stage, key};

#[test]
fn open_for_ends_when_nobody_was_answered_for_so_long() {
    let stage = Stage::new(true);
    for _ in 0..2 {
        assert!(stage.ask(&OPEN_FOR, 1).unwrap().failure().is_none());
        stage.down(true);
        for _ in 0..30 {
            let outcome = stage.ask(&OPEN_FOR, 1).unwrap();
            assert!(outcome.is_allowed() && outcome.decision().is_degraded());
            assert!(!outcome.decision().is_metered());
            assert_eq!(outcome.into_receipts().count(), 0);
            stage.wait(Duration::from_secs(1));
        }
        assert_eq!(stage.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
        // Neither with another policy, nor later.
        let both = Checks::one(LOCAL, key(), 1).and(OPEN_FOR, key(), 1).unwrap();
        assert!(stage.check(both).is_err());
        stage.wait(Duration::from_hours(1));
        assert!(stage.ask(&OPEN_FOR, 1).is_err());
        // Whoever is answered, the outage is over.
        stage.down(false);
        assert!(stage.ask(&OPEN, 0).is_ok());
        stage.down(true);
        assert!(stage.ask(&OPEN_FOR, 1).is_ok());
        stage.down(false);
    }
    assert_eq!(stage.store.stats().entries, 0);
}

#[test]
fn open_for_ends_at_a_store_that_denies_and_cannot_charge() {
    ends_although_it_denies(None);
    // One whose outage begins anew with every denial.
    ends_although_it_denies(Some(Duration::ZERO));
}

fn ends_although_it_denies(told: Option<Duration>) {
    let stage = Stage::saying(false, told);
    assert!(stage.ask(&OPEN, 3).unwrap().is_allowed() && stage.ask(&OPEN_FOR, 1).unwrap().is_allowed());
    stage.faulty.is_full.store(1, Ordering::Relaxed);
    for _ in 0..30 {
        assert!(stage.ask(&OPEN_FOR, 1).unwrap().decision().is_degraded());
        // Neither a denial nor a peek says that it could.
        assert!(!stage.ask(&OPEN, 1).unwrap().is_allowed() && stage.ask(&OPEN, 0).is_ok());
        stage.wait(Duration::from_secs(1));
    }
    assert_eq!(stage.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
    // That it does not answer for a moment, and then does, is another matter.
    stage.down(true);
    assert!(stage.ask(&OPEN, 0).is_err());
    stage.down(false);
    assert!(!stage.ask(&OPEN, 1).unwrap().is_allowed() && stage.ask(&OPEN_FOR, 1).is_err());
    assert!(stage.ask(&LOCAL, 1).unwrap().is_allowed());
    assert!(stage.ask(&OPEN_FOR, 1).unwrap().decision().is_degraded());
}

#[test]
fn a_store_that_says_how_long_it_has_failed_is_believed() {
    let just_under = HALF_A_MINUTE.checked_sub(Duration::from_micros(1)).unwrap();
    for (outage, is_open) in [(Duration::ZERO, true), (just_under, true), (HALF_A_MINUTE, false)] {
        let stage = Stage::saying(false, Some(outage));
        stage.down(true);
        stage.wait(Duration::from_hours(1));
        assert_eq!(stage.ask(&OPEN_FOR, 1).is_ok(), is_open);
        stage.wait(Duration::from_hours(1));
        assert_eq!(stage.ask(&OPEN_FOR, 1).is_ok(), is_open);
    }
}
