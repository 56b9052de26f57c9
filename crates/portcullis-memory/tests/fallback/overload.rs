//! Errors that say that too much is asked: no outage.

use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::{Checks, Policy, Quota, StoreErrorKind};

use crate::stage::{HALF_A_MINUTE, LOCAL, OPEN_FOR, Stage, key};

const DEFAULT: Policy = Policy::fixed_window("default", Quota::per_day(12));
const OVERLOAD: [StoreErrorKind; 2] = [StoreErrorKind::Overloaded, StoreErrorKind::Overtaken];

fn overloaded(later: bool, kind: StoreErrorKind) -> Stage {
    let stage = Stage::new(later);
    *stage.faulty.kind.lock().unwrap() = kind;
    stage.down(true);
    stage
}

#[test]
fn overload_is_passed_on_as_it_is_in_every_mode() {
    for (kind, later) in OVERLOAD.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let stage = overloaded(later, kind);
        for policy in [DEFAULT, LOCAL, OPEN_FOR] {
            for _ in 0..100 {
                let error = stage.ask(&policy, 1).unwrap_err();
                assert_eq!(
                    (error.kind(), error.outage(), error.to_string()),
                    (kind, None, "no answer".into())
                );
            }
        }
        let all = Checks::one(DEFAULT, key(), 1).and(OPEN_FOR, key(), 1).unwrap();
        assert_eq!(stage.check(all).unwrap_err().kind(), kind);
        assert_eq!(stage.store.stats().entries, 0, "nothing is charged in memory");
    }
}

#[test]
fn overload_does_not_count_for_how_long_an_outage_lasts() {
    for kind in OVERLOAD {
        let stage = overloaded(false, kind);
        for _ in 0..60 {
            assert!(stage.ask(&OPEN_FOR, 1).is_err());
            stage.wait(Duration::from_secs(1));
        }
        // An outage begins with its first error, however long the overload before it was.
        *stage.faulty.kind.lock().unwrap() = StoreErrorKind::TimedOut;
        assert!(stage.ask(&OPEN_FOR, 1).unwrap().is_allowed());
        stage.wait(HALF_A_MINUTE);
        assert_eq!(stage.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
        // Nor does overload end one.
        *stage.faulty.kind.lock().unwrap() = kind;
        assert!(stage.ask(&OPEN_FOR, 1).is_err());
        *stage.faulty.kind.lock().unwrap() = StoreErrorKind::TimedOut;
        assert!(stage.ask(&OPEN_FOR, 1).is_err());
    }
}

#[test]
fn a_remembered_denial_does_not_end_an_outage() {
    let stage = Stage::new(false);
    stage.down(true);
    let remember = |remembers: bool| stage.faulty.remembers.store(remembers.into(), Ordering::Relaxed);
    for _ in 0..30 {
        assert!(stage.ask(&OPEN_FOR, 1).unwrap().decision().is_degraded());
        remember(true);
        let denied = stage.ask(&OPEN_FOR, 1).unwrap();
        assert!(!denied.is_allowed() && denied.is_remembered() && !denied.decision().is_degraded());
        remember(false);
        stage.wait(Duration::from_secs(1));
    }
    assert_eq!(stage.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
}
