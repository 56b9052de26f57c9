//! Rule 5 at its exact bound, one unit to either side.

use super::super::super::{Answer, AnsweredBy};
use super::*;

/// An instant of the store's clock, at a boundary of all windows.
const NOON: u64 = 1_767_225_600_000_000;
/// The instant of the calls on the callers' clock.
const NOW: u64 = 1_000_000;
const LEASE: u64 = 10;

/// The families, each with the units that its policy allows at once: an interval may overlap two windows.
const AT_ONCE: [(Family, u64); 4] = [
    (Family::Leased, 50),
    (Family::LeasedWindow, 400),
    (Family::LeasedSliding, 200),
    (Family::LeasedLocal, 60),
];

fn op(family: Family, process: u16, call: Call, outcome: Outcome) -> Op {
    let key_id = KeyId { rotation: 0, family, caller: 0 };
    Op { process, key_id, call, invoked: NOW, completed: NOW + 1, outcome }
}

/// An answer to a call that was done, paid from a lease.
fn done(family: Family) -> Outcome {
    let (policy, at) = (family.policy(), Timestamp::from_micros(NOON));
    let snapshot = policy.strategy().snapshot(None, at, 0, true);
    Outcome::Answered(Answer {
        by: AnsweredBy::Lease,
        ..Answer::new(&Decision::new(&policy, at, snapshot), true)
    })
}

/// One unit admitted by each of the processes but the first, which has admitted the rest of `units`.
fn admitted(family: Family, processes: u16, units: u64) -> Vec<Op> {
    let rest = units - u64::from(processes - 1);
    let cost = |process: u16| if process == 0 { rest } else { 1 };
    (0..processes).map(|process| op(family, process, Call::Check(cost(process)), done(family))).collect()
}

fn rules(ops: &[Op], losses: &[Loss]) -> Vec<u8> {
    let findings = check(&RunRecord { ops, losses, counted: &BTreeMap::new() });
    findings.rules()
}

#[test]
fn each_process_may_have_one_lease_more_than_the_promise() {
    for (family, at_once) in AT_ONCE {
        for processes in 1..=3_u16 {
            let most = at_once + u64::from(processes) * LEASE;
            assert_eq!(rules(&admitted(family, processes, most), &[]), NONE, "{family:?}");
            assert_eq!(rules(&admitted(family, processes, most + 1), &[]), [5], "{family:?}");
        }
    }
}

#[test]
fn a_loss_excuses_one_burst_beyond_the_leases() {
    for (family, at_once) in AT_ONCE {
        let (most, losses) = (at_once + LEASE + family.capacity(), [at_any_time(Extent::All)]);
        assert_eq!(rules(&admitted(family, 1, most), &losses), NONE, "{family:?}");
        assert_eq!(rules(&admitted(family, 1, most + 1), &losses), [5], "{family:?}");
    }
}

#[test]
fn a_failed_call_may_leave_one_return_in_doubt() {
    for (family, at_once) in AT_ONCE {
        for failed in [Outcome::Unknown(Failure::TimedOut), Outcome::NotDone(Failure::Unavailable)] {
            let history = |units| {
                let mut ops = admitted(family, 2, units);
                ops.push(op(family, 1, Call::Check(1), failed.clone()));
                ops
            };
            let most = at_once + 3 * LEASE;
            assert_eq!(rules(&history(most), &[]), NONE, "{family:?}");
            assert_eq!(rules(&history(most + 1), &[]), [5], "{family:?}");
        }
    }
}

#[test]
fn units_refunded_to_a_lease_may_be_admitted_again() {
    for (family, at_once) in AT_ONCE {
        let history = |units| {
            // The store has replenished them, but the lease has not ended.
            let runs = vec![Run { units: 3, position: Position { micros: NOON - 1, remainder: 0 } }];
            let refund = Call::Settle(Correction { to: 0, charged: 3, runs });
            let mut ops = admitted(family, 1, units);
            ops.push(op(family, 0, refund, done(family)));
            ops
        };
        let most = at_once + LEASE + 3;
        assert_eq!(rules(&history(most), &[]), NONE, "{family:?}");
        assert_eq!(rules(&history(most + 1), &[]), [5], "{family:?}");
    }
}

#[test]
fn leased_checks_are_counted_and_not_replayed() {
    for family in Family::LEASED {
        let ops = admitted(family, 3, 9);
        let findings = check(&RunRecord { ops: &ops, losses: &[], counted: &BTreeMap::new() });
        let leased = findings.leased[&family];
        assert_eq!((leased, findings.replayed, findings.unclear), (3, 0, 0), "{family:?}");
    }
}

/// Units that a process has admitted by itself.
fn local(process: u16, units: u64) -> Op {
    let Outcome::Answered(answer) = done(Family::LeasedLocal) else { unreachable!("it is answered") };
    let outcome = Outcome::Answered(Answer { by: AnsweredBy::Fallback, ..answer });
    op(Family::LeasedLocal, process, Call::Check(units), outcome)
}

#[test]
fn each_process_may_admit_its_share_by_itself() {
    // A share of an eighth. After a local decision a return may be in doubt.
    let (share, stored) = (60 / 8, 60 + 2 * LEASE);
    let history = |own: u64, of_server: u64| {
        let mut ops = admitted(Family::LeasedLocal, 1, of_server);
        ops.extend((0..3).map(|process| local(process, own)));
        ops
    };
    assert_eq!(rules(&history(share, stored + 2 * 2 * LEASE), &[]), NONE);
    assert_eq!(rules(&history(share + 1, stored), &[]), [5]);
    assert_eq!(rules(&history(share, stored + 2 * 2 * LEASE + 1), &[]), [5]);
}
