//! Rule 8, and each kind of history that breaks it.

use super::super::super::Answer;
use super::*;

const LENGTH: u64 = 2_000_000;
const OWN: u64 = 40;

fn op(invoked: u64, call: Call, outcome: Outcome) -> Op {
    let key_id = KeyId { rotation: 0, family: Family::Granted, caller: 0 };
    Op { process: 0, key_id, call, invoked, completed: invoked + 500, outcome }
}

/// An admitted check of one unit, after which `used` units of `limit` are used.
fn checked(invoked: u64, limit: u64, used: u64) -> Op {
    let (policy, at) = (Family::Granted.policy(), Timestamp::from_micros(1_767_225_600_000_000 + invoked));
    let snapshot = policy.strategy().snapshot(None, at, 0, true);
    let answer = Answer::new(&Decision::new(&policy, at, snapshot), true);
    let answer = Answer { limit, remaining: limit.saturating_sub(used), ..answer };
    op(invoked, Call::Check(1), Outcome::Answered(answer))
}

fn grant(invoked: u64, limit: u64, outcome: Outcome) -> Op {
    op(invoked, Call::Grant { limit, length: LENGTH }, outcome)
}

const DONE: Outcome = Outcome::Done(0);
const UNKNOWN: Outcome = Outcome::Unknown(Failure::TimedOut);
const NOT_DONE: Outcome = Outcome::NotDone(Failure::Unavailable);

fn is_accepted(ops: &[Op], losses: &[Loss]) -> bool {
    let findings = check(&RunRecord { ops, losses, counted: &BTreeMap::new() });
    let rules = findings.rules();
    assert!(rules.is_empty() || rules == [8], "{rules:?}");
    rules.is_empty()
}

/// Whether a check after these calls may have the limit of the policy, and whether it may have 60.
fn may_have(before: &[Op], at: u64, losses: &[Loss]) -> (bool, bool) {
    let [own, granted] =
        [OWN, 60].map(|limit| is_accepted(&[before, &[checked(at, limit, 1)]].concat(), losses));
    (own, granted)
}

#[test]
fn a_grant_applies_until_it_ends() {
    let (own, granted, either) = ((true, false), (false, true), (true, true));
    let done = [grant(1_000, 60, DONE)];
    assert_eq!(may_have(&[], 100_000, &[]), own);
    assert_eq!(may_have(&done, 1_200, &[]), either, "the check may have run first");
    assert_eq!(may_have(&done, 100_000, &[]), granted);
    assert_eq!(may_have(&done, 1_000 + LENGTH, &[]), either);
    assert_eq!(may_have(&done, 1_000 + LENGTH + 4_000, &[]), own);
    assert_eq!(may_have(&[grant(1_000, 60, NOT_DONE)], 100_000, &[]), own);
    assert_eq!(may_have(&[grant(1_000, 60, UNKNOWN)], 100_000, &[]), either);
    assert_eq!(may_have(&[grant(1_000, 50, DONE)], 100_000, &[]), (false, false));
    assert_eq!(may_have(&done, 100_000, &[at_any_time(Extent::All)]), either);
    for (outcome, expected) in [(DONE, own), (UNKNOWN, either), (NOT_DONE, granted)] {
        let revoked = [grant(1_000, 60, DONE), op(50_000, Call::Revoke, outcome)];
        assert_eq!(may_have(&revoked, 100_000, &[]), expected);
    }
}

#[test]
fn the_units_in_use_are_those_since_the_last_reset() {
    let used =
        |calls: &[Op], used: u64| is_accepted(&[calls, &[checked(9_000_000, OWN, used)]].concat(), &[]);
    let range = |calls: &[Op]| (1..10).filter(|units| used(calls, *units)).collect::<Vec<_>>();
    let two = [checked(1_000, OWN, 1), checked(2_000, OWN, 2)];
    assert_eq!(range(&two), [3]);
    let then = |call: Call, outcome| [two.as_slice(), &[op(3_000, call, outcome)]].concat();
    assert_eq!(range(&then(Call::Reset, DONE)), [1]);
    assert_eq!(range(&then(Call::Reset, NOT_DONE)), [3]);
    assert_eq!(range(&then(Call::Reset, UNKNOWN)), [1, 2, 3]);
    assert_eq!(range(&then(Call::Check(2), UNKNOWN)), [3, 4, 5]);
    let late = [op(1_000, Call::Check(2), UNKNOWN), op(3_000, Call::Reset, DONE)];
    assert_eq!(range(&late), [1, 2, 3], "the check may run after the reset");
    let lost = Loss { from: 4_000, to: 5_000, extent: Extent::Latest };
    assert!(is_accepted(&[two.as_slice(), &[checked(9_000_000, OWN, 1)]].concat(), &[lost]));
}
