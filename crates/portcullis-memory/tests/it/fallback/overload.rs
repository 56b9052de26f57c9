//! Overload errors are not an outage.

use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::store::Checks;
use portcullis_core::{Policy, Quota, StoreErrorKind};

use super::env::{Env, HALF_A_MINUTE, LOCAL, OPEN_FOR, key};

const DEFAULT: Policy = Policy::fixed_window("default", Quota::per_day(12));
const OVERLOAD: [StoreErrorKind; 2] = [StoreErrorKind::Overloaded, StoreErrorKind::Overtaken];

fn overloaded(later: bool, kind: StoreErrorKind) -> Env {
    let env = Env::new(later);
    *env.faulty.kind.lock().unwrap() = kind;
    env.down(true);
    env
}

#[test]
fn overload_is_returned_unchanged_in_every_mode() {
    for (kind, later) in OVERLOAD.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let env = overloaded(later, kind);
        for policy in [DEFAULT, LOCAL, OPEN_FOR] {
            for _ in 0..100 {
                let error = env.ask(&policy, 1).unwrap_err();
                assert_eq!(
                    (error.kind(), error.outage(), error.to_string()),
                    (kind, None, "no answer".into())
                );
            }
        }
        let all = Checks::one(DEFAULT, key(), 1).and(OPEN_FOR, key(), 1).unwrap();
        assert_eq!(env.check(all).unwrap_err().kind(), kind);
        assert_eq!(env.store.stats().entries, 0, "nothing is charged in memory");
    }
}

#[test]
fn overload_does_not_count_towards_an_outage() {
    for kind in OVERLOAD {
        let env = overloaded(false, kind);
        for _ in 0..60 {
            assert!(env.ask(&OPEN_FOR, 1).is_err());
            env.wait(Duration::from_secs(1));
        }
        // An outage begins with its own first error, however long the overload before it lasted.
        *env.faulty.kind.lock().unwrap() = StoreErrorKind::TimedOut;
        assert!(env.ask(&OPEN_FOR, 1).unwrap().is_allowed());
        env.wait(HALF_A_MINUTE);
        assert_eq!(env.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
        // Overload does not end an outage either.
        *env.faulty.kind.lock().unwrap() = kind;
        assert!(env.ask(&OPEN_FOR, 1).is_err());
        *env.faulty.kind.lock().unwrap() = StoreErrorKind::TimedOut;
        assert!(env.ask(&OPEN_FOR, 1).is_err());
    }
}

#[test]
fn a_remembered_denial_does_not_end_an_outage() {
    let env = Env::new(false);
    env.down(true);
    let remember = |remembers: bool| env.faulty.remembers.store(remembers.into(), Ordering::Relaxed);
    for _ in 0..30 {
        assert!(env.ask(&OPEN_FOR, 1).unwrap().decision().is_degraded());
        remember(true);
        let denied = env.ask(&OPEN_FOR, 1).unwrap();
        assert!(!denied.is_allowed() && denied.is_remembered() && !denied.decision().is_degraded());
        remember(false);
        env.wait(Duration::from_secs(1));
    }
    assert_eq!(env.ask(&OPEN_FOR, 1).unwrap_err().outage(), Some(HALF_A_MINUTE));
}
