//! Rule 8: grants and resets.

use super::super::{Answer, Call, KeyId, Op, Outcome};
use super::overrides::Overrides;
use super::{Loss, Violation, is_lost, latest_run};

/// Returns the first check under a limit that the key did not have, or with a number of units that were not charged since a reset.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> Option<Violation> {
    let grants = Overrides::new(ops, losses, |call| matches!(call, Call::Grant { .. } | Call::Revoke));
    let own = key_id.family.quota().limit();
    ops.iter().find_map(|op| {
        let answer = op.answer().filter(|_| matches!(op.call, Call::Check(_)))?;
        let what = wrong_limit(&grants, op, answer, own).or_else(|| wrong_units(ops, losses, op, answer))?;
        Some(Violation::at(8, key_id, ops, op.invoked, what))
    })
}

fn wrong_limit(grants: &Overrides<'_>, op: &Op, answer: &Answer, own: u64) -> Option<String> {
    let limit = answer.limit;
    let length_of = |is_limit: fn(u64, u64) -> bool| {
        move |call: &Call| match call {
            Call::Grant { limit: granted, length } if is_limit(*granted, limit) => Some(*length),
            _ => None,
        }
    };
    if limit != own && !grants.is_possible(op, length_of(|granted, limit| granted == limit)) {
        return Some(format!("a check had the limit {limit}, which was not granted or is over"));
    }
    grants
        .is_certain(op, length_of(|granted, limit| granted != limit))
        .then(|| format!("a check had the limit {limit} although another one is granted"))
}

/// The caller of the key makes one call after the other, so that only calls without an answer can run later.
fn wrong_units(ops: &[&Op], losses: &[Loss], op: &Op, answer: &Answer) -> Option<String> {
    let until = || ops.iter().filter(|other| other.invoked <= op.invoked);
    let first = ops.first()?.invoked;
    if is_lost(losses, first, op.completed) {
        return None;
    }
    let resets =
        || until().filter(|other| other.call == Call::Reset && (other.is_answered() || other.is_unknown()));
    let last_certain =
        resets().filter(|reset| reset.outcome == Outcome::Done(0)).map(|reset| reset.invoked).max();
    let last_possible = resets().map(|reset| latest_run(reset)).max();
    let is_after = |other: &Op, reset: Option<u64>| reset.is_none_or(|reset| other.invoked >= reset);
    let fewest: u64 =
        until().filter(|other| is_after(other, last_possible)).map(|other| other.admitted()).sum();
    let can_be_left = |other: &&&Op| last_certain.is_none_or(|reset| latest_run(other) >= reset);
    let most: u64 = until().filter(can_be_left).map(|other| other.admitted() + other.doubtful()).sum();
    let used = answer.limit.saturating_sub(answer.remaining);
    // With nothing left, more units than the limit can be used: a grant of more has ended.
    let is_few = used < fewest && answer.remaining > 0;
    (is_few || used > most)
        .then(|| format!("{used} units are used of {}, not {fewest} to {most}", answer.limit))
}
