//! Rule 9, and each kind of history that breaks it.

use std::time::Duration;

use portcullis_core::Retry;

use super::super::super::{Answer, AnsweredBy};
use super::*;

fn op(process: u16, invoked: u64, call: Call, outcome: Outcome) -> Op {
    let key_id = KeyId { rotation: 0, family: Family::Remembered, caller: 0 };
    Op { process, key_id, call, invoked, completed: invoked + 500, outcome }
}

/// A denial of a check of this cost. Another unit may be available after `next_after` microseconds.
fn denied(process: u16, invoked: u64, cost: u64, remembered: bool, next_after: u64) -> Op {
    let (policy, at) = (Family::Remembered.policy(), Timestamp::from_micros(1_767_225_600_000_000 + invoked));
    let mut state = None;
    policy.strategy().charge(&mut state, at, 5);
    let snapshot = policy.strategy().snapshot(state.as_ref(), at, cost, false);
    let answer = Answer::new(&Decision::new(&policy, at, snapshot), false);
    let by = if remembered { AnsweredBy::DenialMemory } else { AnsweredBy::Server };
    let retry = Some(Retry::After(Duration::from_secs(9)));
    op(process, invoked, Call::Check(cost), Outcome::Answered(Answer { by, retry, next_after, ..answer }))
}

fn is_explained(before: &[Op], remembered: Op) -> bool {
    let ops: Vec<Op> = before.iter().cloned().chain([remembered]).collect();
    let ops: Vec<&Op> = ops.iter().collect();
    let is_unanswered = |op: &&Op| super::super::remembered::is_unanswered(op);
    let unanswered: Vec<&Op> = ops.iter().copied().filter(is_unanswered).collect();
    super::super::remembered::check(ops[0].key_id, &ops, &unanswered).is_none()
}

#[test]
fn a_denial_is_remembered_for_a_second() {
    let by_server = || [denied(0, 1_000, 2, false, 0)];
    assert!(is_explained(&by_server(), denied(0, 1_001_500, 2, true, 0)));
    assert!(!is_explained(&by_server(), denied(0, 1_001_501, 2, true, 0)));
    assert!(!is_explained(&[], denied(0, 1_000, 2, true, 0)));
}

#[test]
fn denial_is_held_for_its_wait_in_outage() {
    let failed =
        |process, invoked| op(process, invoked, Call::Check(1), Outcome::NotDone(Failure::Unavailable));
    let denied_at = |failed: Op, at| {
        is_explained(&[denied(0, 1_000, 2, false, 70_000), failed], denied(0, at, 2, true, 0))
    };
    // Its wait of nine seconds counts from its answer.
    assert!(denied_at(failed(0, 9_000_000), 9_001_500));
    assert!(!denied_at(failed(0, 9_000_000), 9_001_501));
    assert!(!denied_at(failed(1, 5_000_000), 5_000_000), "of another process");
    assert!(!denied_at(failed(0, 2_000_000), 5_000_000), "long before");
}

#[test]
fn a_denial_is_remembered_until_its_figures_change() {
    let by_server = || [denied(0, 1_000, 2, false, 70_000)];
    assert!(is_explained(&by_server(), denied(0, 71_500, 2, true, 1)));
    assert!(!is_explained(&by_server(), denied(0, 71_501, 2, true, 1)));
}

#[test]
fn a_denial_is_remembered_by_one_process_for_its_cost() {
    let by_server = [denied(0, 1_000, 2, false, 0)];
    assert!(is_explained(&by_server, denied(0, 5_000, 3, true, 0)));
    assert!(!is_explained(&by_server, denied(0, 5_000, 1, true, 0)));
    assert!(!is_explained(&by_server, denied(1, 5_000, 2, true, 0)));
    // A denial that was remembered explains no other one.
    assert!(!is_explained(&[denied(0, 1_000, 2, true, 0)], denied(0, 5_000, 2, true, 0)));
}

#[test]
fn a_correction_by_the_process_ends_a_remembered_denial() {
    let correction = |process, invoked| {
        op(process, invoked, Call::Settle(Correction::default()), Outcome::Unknown(Failure::TimedOut))
    };
    let after = |correction: Op| [denied(0, 1_000, 2, false, 0), correction];
    assert!(!is_explained(&after(correction(0, 1_500)), denied(0, 5_000, 2, true, 0)));
    assert!(is_explained(&after(correction(0, 1_499)), denied(0, 5_000, 2, true, 0)));
    assert!(is_explained(&after(correction(1, 1_500)), denied(0, 5_000, 2, true, 0)));
    let failed = Op { outcome: Outcome::NotDone(Failure::Unavailable), ..correction(0, 1_500) };
    assert!(is_explained(&after(failed), denied(0, 5_000, 2, true, 0)), "it has freed nothing");
}

#[test]
fn the_other_rules_hold_without_remembered_denials() {
    let mut ops = vec![denied(0, 1_000, 2, false, 0)];
    // Otherwise nothing has charged the units for which it is denied.
    let rules = |ops: &[Op]| -> Vec<u8> {
        let findings = check(&RunRecord { ops, losses: &[], counted: &BTreeMap::new() });
        findings.rules()
    };
    let alone = rules(&ops);
    assert!(alone.contains(&2), "{alone:?}");
    ops.push(denied(0, 5_000, 2, true, 0));
    assert_eq!(rules(&ops), alone);
}
