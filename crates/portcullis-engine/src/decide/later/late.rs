//! The denial of a request whose slot in a queue is later than its caller accepts.

use std::mem;
use std::time::Duration;

use portcullis_core::Retry;
use portcullis_core::store::{CheckResult, Outcome};

/// The denial of a request that has `waited` and would wait for longer than `max_wait` in all, with the time after which the wait for a
/// slot would be short enough. A retry starts afresh: what has been waited is not part of that time.
pub(super) fn denial(max_wait: Duration, waited: Duration, charged: &Outcome) -> Option<Outcome> {
    let left = max_wait.saturating_sub(waited);
    if charged.decision().delay() <= left {
        return None;
    }
    let checks = charged.checks().clone();
    let results = checks.iter().zip(charged.results()).map(|(check, result)| {
        let CheckResult { admitted, mut snapshot, position } = result;
        // The units are refunded.
        snapshot.remaining = snapshot.remaining.saturating_add(check.cost).min(snapshot.limit);
        let delay = mem::take(&mut snapshot.delay);
        let is_late = check.policy.strategy().queues() && delay > left;
        // The queue advances as time does, so a slot that is near enough is free then.
        snapshot.retry = is_late.then(|| Retry::After(delay.saturating_sub(max_wait)));
        CheckResult { admitted: admitted && !is_late, snapshot, position }
    });
    let at = charged.decision().at();
    let results: Vec<_> = results.collect();
    let denied = Outcome::new(checks.clone(), at, results).expect("there is one result per check");
    Some(match charged.failure().cloned().zip(charged.fallback_id()) {
        Some((failure, id)) => Outcome::from_fallback(checks, Some(&denied), at, failure, id),
        None => denied,
    })
}
