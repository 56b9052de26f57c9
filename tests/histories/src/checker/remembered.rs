//! Rule 9: denials that a process remembers.

use portcullis_core::Retry;

use super::super::{Answer, AnsweredBy, Call, Failure, KeyId, Op, Outcome};
use super::Violation;

/// Returns the first remembered denial that no denial by a server explains. `unanswered` are the calls of all keys that got no answer.
pub(super) fn check(key_id: KeyId, ops: &[&Op], unanswered: &[&Op]) -> Option<Violation> {
    let is_explained = |op: &Op| ops.iter().any(|other| explains(other, op, ops, unanswered));
    let unexplained = ops.iter().find(|op| op.is_remembered() && !is_explained(op))?;
    let what = "a denial was remembered that no server has made in the last second".to_owned();
    Some(Violation::at(9, key_id, ops, unexplained.invoked, what))
}

/// Whether a call got no answer from a server, as in an outage.
pub(super) fn is_unanswered(op: &Op) -> bool {
    let is_outage = |failure| matches!(failure, Failure::Unavailable | Failure::TimedOut);
    match op.outcome {
        Outcome::NotDone(failure) | Outcome::Unknown(failure) => is_outage(failure),
        Outcome::Answered(_) | Outcome::Done(_) => op.is_degraded(),
    }
}

/// Whether `denied` may be what the process has remembered.
fn explains(denied: &Op, remembered: &Op, ops: &[&Op], unanswered: &[&Op]) -> bool {
    let (Call::Check(cost), Call::Check(least), Some(figures), Some(answer)) =
        (&remembered.call, &denied.call, remembered.answer(), denied.answer())
    else {
        return false;
    };
    let is_near = |op: &&Op| {
        op.process == remembered.process
            && op.invoked <= remembered.completed.saturating_add(NEAR)
            && remembered.invoked <= op.completed.saturating_add(NEAR)
    };
    let in_outage = || unanswered.iter().any(is_near);
    let is_valid = |longest: Option<u64>| {
        longest.is_some_and(|longest| remembered.invoked <= denied.completed.saturating_add(longest))
    };
    denied.process == remembered.process
        && answer.by == AnsweredBy::Server
        && *least > 0
        && least <= cost
        && (figures.limit, figures.remaining) == (answer.limit, answer.remaining)
        // The process remembers it before the task that has asked records it.
        && denied.invoked <= remembered.completed
        && (is_valid(validity(answer)) || is_valid(wait(answer)) && in_outage())
        && !ops.iter().any(|op| is_between(op, denied, remembered))
}

/// Whether the process has corrected the key after one call and before another one, and may have freed units.
fn is_between(op: &Op, before: &Op, after: &Op) -> bool {
    let Call::Settle(correction) = &op.call else { return false };
    let frees_nothing = match op.outcome {
        Outcome::NotDone(_) => true,
        Outcome::Unknown(_) | Outcome::Answered(_) | Outcome::Done(_) => correction.missing() > 0,
    };
    op.process == after.process
        && !frees_nothing
        && op.invoked >= before.completed
        && op.completed <= after.invoked
}

/// For how long a denial may be remembered, in microseconds; `None` for an admission.
fn validity(answer: &Answer) -> Option<u64> {
    let next = Some(answer.next_after).filter(|micros| *micros > 0);
    Some(wait(answer)?.min(next.unwrap_or(u64::MAX)).min(MAX_AGE))
}

/// For how long a denial may be remembered in an outage: until its wait is over.
fn wait(answer: &Answer) -> Option<u64> {
    let wait = match answer.retry? {
        Retry::After(wait) => u64::try_from(wait.as_micros()).unwrap_or(u64::MAX),
        Retry::Never => u64::MAX,
        Retry::Unknown => return None,
    };
    Some(wait.min(MAX_AGE_IN_OUTAGE))
}

const MAX_AGE: u64 = 1_000_000;
const MAX_AGE_IN_OUTAGE: u64 = 60_000_000;
/// Calls of a process follow each other faster.
const NEAR: u64 = 1_000_000;
