//! The rules of leased policies that are checked together with others, one unit to either side.

use super::super::super::{Answer, AnsweredBy};
use super::*;

const LEASE: u64 = 10;
/// What a token bucket of these families admits at once.
const BURST: u64 = 50;

fn answered(family: Family, by: AnsweredBy, charged: bool) -> Outcome {
    let (policy, at) = (family.policy(), Timestamp::from_micros(1_767_225_600_000_000));
    let snapshot = policy.strategy().snapshot(None, at, 0, true);
    let position = Position { micros: at.as_micros(), remainder: 0 };
    Outcome::Answered(Answer { by, position, ..Answer::new(&Decision::new(&policy, at, snapshot), charged) })
}

fn op(family: Family, number: u64, call: Call, outcome: Outcome) -> Op {
    let key_id = KeyId { rotation: 0, family, caller: 0 };
    // One after another.
    let invoked = 1_000_000 + 2 * number;
    Op { process: 0, key_id, call, invoked, completed: invoked + 1, outcome }
}

/// Checks of one unit each that a process has admitted.
fn admitted(family: Family, units: u64) -> Vec<Op> {
    admitted_by(AnsweredBy::Lease, family, units)
}

fn admitted_by(by: AnsweredBy, family: Family, units: u64) -> Vec<Op> {
    (0..units).map(|number| op(family, number, Call::Check(1), answered(family, by, true))).collect()
}

fn rules(ops: &[Op], losses: &[Loss], counted: Option<u64>) -> Vec<u8> {
    let key_id = KeyId { rotation: 0, family: Family::MixedCount, caller: 0 };
    let counted = counted.map(|units| (key_id, units)).into_iter().collect();
    let findings = check(&RunRecord { ops, losses, counted: &counted });
    findings.rules()
}

#[test]
fn checks_in_progress_may_exceed_the_lease() {
    for family in [Family::MixedBucket, Family::CancelledBucket] {
        let most = BURST + LEASE + 1;
        assert_eq!(rules(&admitted(family, most), &[], None), NONE, "{family:?}");
        assert_eq!(rules(&admitted(family, most + 1), &[], None), [5], "{family:?}");
    }
}

#[test]
fn a_check_goes_on_without_its_caller() {
    let history = |units| {
        let dropped = Outcome::Unknown(Failure::Dropped);
        let mut ops = admitted(Family::CancelledBucket, units);
        ops.extend((0..3).map(|number| op(Family::CancelledBucket, number, Call::Check(1), dropped.clone())));
        ops
    };
    // A dropped call leaves a return in doubt as well.
    let most = BURST + 2 * LEASE + 1 + 3;
    assert_eq!(rules(&history(most), &[], None), NONE);
    assert_eq!(rules(&history(most + 1), &[], None), [5]);
}

#[test]
fn a_policy_without_a_lease_has_no_units_in_addition() {
    let history = |units| admitted_by(AnsweredBy::Server, Family::CancelledExact, units);
    assert_eq!(rules(&history(5), &[], None), NONE);
    assert_eq!(rules(&history(6), &[], None), [1]);
}

#[test]
fn a_share_that_a_process_decides_is_bounded_without_a_lease() {
    let history = |units| admitted_by(AnsweredBy::Fallback, Family::MixedLocalExact, units);
    // An eighth of a burst of 16.
    assert_eq!(rules(&history(2), &[], None), NONE);
    assert_eq!(rules(&history(3), &[], None), [5]);
}

#[test]
fn the_count_of_a_lease_is_what_was_acknowledged() {
    let mut ops = admitted(Family::MixedCount, 30);
    // What another policy has denied is not charged, and what is refunded neither.
    ops.push(op(
        Family::MixedCount,
        40,
        Call::Check(1),
        answered(Family::MixedCount, AnsweredBy::Lease, false),
    ));
    let runs = vec![Run { units: 1, position: Position::default() }];
    let refund = Call::Settle(Correction { to: 0, charged: 1, runs });
    ops.push(op(Family::MixedCount, 41, refund, answered(Family::MixedCount, AnsweredBy::Server, true)));
    assert_eq!(rules(&ops, &[], Some(29)), NONE);
    assert_eq!(rules(&ops, &[], Some(28)), [3]);
    assert_eq!(rules(&ops, &[], Some(30)), [3]);
    let undone = check(&RunRecord { ops: &ops, losses: &[], counted: &BTreeMap::new() }).undone;
    assert_eq!(undone, 1);
}

#[test]
fn a_failed_call_of_any_key_may_leave_units_charged() {
    let mut ops = admitted(Family::MixedCount, 30);
    ops.push(op(Family::Slow, 50, Call::Check(1), Outcome::Unknown(Failure::TimedOut)));
    assert_eq!(rules(&ops, &[], Some(30)), NONE);
    assert_eq!(rules(&ops, &[], Some(31)), NONE);
    assert_eq!(rules(&ops, &[], Some(29)), [3]);
    // A caller that goes away is no failure.
    ops.last_mut().unwrap().outcome = Outcome::Unknown(Failure::Dropped);
    assert_eq!(rules(&ops, &[], Some(31)), [3]);
}

#[test]
fn a_loss_excuses_the_units_in_lease_at_it() {
    let mut ops = admitted(Family::MixedCount, 30);
    let lost = Loss { from: 999_998, to: 999_999, extent: Extent::All };
    let least = 30 - LEASE - 1;
    assert_eq!(rules(&ops, &[lost], Some(least)), NONE);
    assert_eq!(rules(&ops, &[lost], Some(least - 1)), [3]);
    // What was charged before it is lost.
    ops.insert(0, Op { invoked: 10, completed: 20, ..ops[0].clone() });
    assert_eq!(rules(&ops, &[lost], Some(least)), NONE);
    assert_eq!(rules(&ops, &[lost], Some(least - 1)), [3]);
}

#[test]
fn an_answer_before_the_recorded_one_may_move_the_state() {
    let history = |goes_back: bool| {
        let mut sim = Simulation::new(Family::MixedExact);
        (0..6).for_each(|_| sim.check(10_000, 1));
        if goes_back {
            sim.lead -= 3_600_000_000;
        }
        // With units for a lease, which are denied. The check is made again, without them.
        sim.advance(400_000);
        sim.run(&Call::Check(1));
        sim.check(400, 1);
        sim.rules(&[at_any_time(Extent::Latest)])
    };
    assert_eq!(history(true), NONE);
    assert_eq!(history(false), [2, 4], "the answer has charged a unit");
}
