//! Rule 9: denials that a process remembers.

use portcullis_core::Retry;

use super::super::{Answer, AnsweredBy, Call, KeyId, Op};
use super::Violation;

/// Returns the first remembered denial that no denial by a server explains.
pub(super) fn check(key_id: KeyId, ops: &[&Op]) -> Option<Violation> {
    let unexplained =
        ops.iter().find(|op| op.is_remembered() && !ops.iter().any(|other| explains(other, op, ops)))?;
    let what = "a denial was remembered that no server has made in the last second".to_owned();
    Some(Violation::at(9, key_id, ops, unexplained.invoked, what))
}

/// Whether `denied` may be what the process has remembered.
fn explains(denied: &Op, remembered: &Op, ops: &[&Op]) -> bool {
    let (Call::Check(cost), Call::Check(least), Some(figures), Some(answer)) =
        (&remembered.call, &denied.call, remembered.answer(), denied.answer())
    else {
        return false;
    };
    denied.process == remembered.process
        && answer.by == AnsweredBy::Server
        && *least > 0
        && least <= cost
        && (figures.limit, figures.remaining) == (answer.limit, answer.remaining)
        // The process remembers it before the task that has asked records it.
        && denied.invoked <= remembered.completed
        && validity(answer).is_some_and(|longest| remembered.invoked <= denied.completed.saturating_add(longest))
        && !ops.iter().any(|op| is_between(op, denied, remembered))
}

/// Whether the process has corrected the key after one call and before another one.
fn is_between(op: &Op, before: &Op, after: &Op) -> bool {
    op.process == after.process
        && matches!(op.call, Call::Settle(_))
        && op.invoked >= before.completed
        && op.completed <= after.invoked
}

/// For how long a denial may be remembered, in microseconds; `None` for an admission.
fn validity(answer: &Answer) -> Option<u64> {
    let wait = match answer.retry? {
        Retry::After(wait) => u64::try_from(wait.as_micros()).unwrap_or(u64::MAX),
        Retry::Never => u64::MAX,
        Retry::Unknown => return None,
    };
    let next = Some(answer.next_after).filter(|micros| *micros > 0);
    Some(wait.min(next.unwrap_or(u64::MAX)).min(MAX_AGE))
}

const MAX_AGE: u64 = 1_000_000;
