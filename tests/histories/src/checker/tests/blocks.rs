//! Rule 7, and each kind of history that breaks it.

use std::time::Duration;

use portcullis_core::Retry;

use super::super::super::Answer;
use super::*;

const LENGTH: u64 = 2_000_000;

fn op(invoked: u64, call: Call, outcome: Outcome) -> Op {
    let key_id = KeyId { rotation: 0, family: Family::Blocked, caller: 0 };
    Op { process: 0, key_id, call, invoked, completed: invoked + 500, outcome }
}

fn checked(invoked: u64, blocked: bool) -> Op {
    let (policy, at) = (Family::Blocked.policy(), Timestamp::from_micros(1_767_225_600_000_000 + invoked));
    let snapshot = policy.strategy().snapshot(None, at, 0, true);
    let answer = Answer::new(&Decision::new(&policy, at, snapshot), !blocked);
    let retry = blocked.then_some(Retry::After(Duration::from_secs(1)));
    op(invoked, Call::Check(1), Outcome::Answered(Answer { blocked, retry, ..answer }))
}

fn block(invoked: u64, outcome: Outcome) -> Op {
    op(invoked, Call::Block(LENGTH), outcome)
}

fn unblock(invoked: u64, outcome: Outcome) -> Op {
    op(invoked, Call::Unblock, outcome)
}

const DONE: Outcome = Outcome::Done(0);
const UNKNOWN: Outcome = Outcome::Unknown(Failure::TimedOut);
const NOT_DONE: Outcome = Outcome::NotDone(Failure::Unavailable);

/// Whether the checks at 100 000 µs can be denied by a block, and whether they can be not denied, after these calls.
fn can_be(before: &[Op], at: u64, losses: &[Loss]) -> (bool, bool) {
    let [denied, allowed] = [true, false].map(|blocked| {
        let ops = [before, &[checked(at, blocked)]].concat();
        let findings = check(&RunRecord { ops: &ops, losses, counted: &BTreeMap::new() });
        let rules = findings.rules();
        assert!(rules.is_empty() || rules == [7], "{rules:?}");
        rules.is_empty()
    });
    (denied, allowed)
}

#[test]
fn a_block_denies_until_its_end() {
    let (denied, allowed, either) = ((true, false), (false, true), (true, true));
    let blocked = [block(1_000, DONE)];
    assert_eq!(can_be(&[], 100_000, &[]), allowed);
    assert_eq!(can_be(&blocked, 1_200, &[]), either, "the check may have run first");
    assert_eq!(can_be(&blocked, 100_000, &[]), denied);
    assert_eq!(can_be(&blocked, 1_000 + LENGTH - 4_000, &[]), denied);
    assert_eq!(can_be(&blocked, 1_000 + LENGTH, &[]), either);
    assert_eq!(can_be(&blocked, 1_000 + LENGTH + 4_000, &[]), allowed);
    assert_eq!(can_be(&[block(1_000, NOT_DONE)], 100_000, &[]), allowed);
    assert_eq!(can_be(&[block(1_000, UNKNOWN)], 100_000, &[]), either);
    assert_eq!(can_be(&blocked, 100_000, &[at_any_time(Extent::All)]), either);
}

#[test]
fn an_unblock_ends_a_block() {
    let (denied, allowed, either) = ((true, false), (false, true), (true, true));
    let then = |outcome| can_be(&[block(1_000, DONE), unblock(50_000, outcome)], 100_000, &[]);
    assert_eq!(then(DONE), allowed);
    assert_eq!(then(UNKNOWN), either);
    assert_eq!(then(NOT_DONE), denied);
    let late = [block(1_000, UNKNOWN), unblock(50_000, DONE)];
    assert_eq!(can_be(&late, 100_000, &[]), either, "the block may run after the unblock");
    let lost = Loss { from: 60_000, to: 70_000, extent: Extent::Latest };
    assert_eq!(can_be(&[block(1_000, DONE), unblock(50_000, DONE)], 100_000, &[lost]), either);
}

#[test]
fn a_later_block_replaces_an_earlier_one() {
    let short = Op { call: Call::Block(300_000), ..block(50_000, DONE) };
    let ops = [block(1_000, DONE), short];
    assert_eq!(can_be(&ops, 100_000, &[]), (true, false));
    assert_eq!(can_be(&ops, 400_000, &[]), (false, true));
}
