//! Bounds how long a check of a handler waits for its slot in a queue or for a window.

use std::time::Duration;

use http::Extensions;
use portcullis_core::Retry;
use portcullis_core::store::{CheckResult, Outcome};

/// The longest wait of a check, in the extensions of its parts. Absent if its queues alone bound the wait.
#[derive(Clone, Copy)]
pub(super) struct MaxWait(pub(super) Duration);

impl MaxWait {
    pub(super) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().copied()
    }

    /// The denial of a check that was charged for a slot after the longest wait. `None` if its slot is early enough.
    pub(super) fn denial(extensions: &Extensions, charged: &Outcome) -> Option<Outcome> {
        let Self(max_wait) = Self::of(extensions)?;
        if charged.decision().delay() <= max_wait {
            return None;
        }
        let checks = charged.checks().clone();
        let results = checks.iter().zip(charged.results()).map(|(check, result)| {
            let CheckResult { admitted, mut snapshot, position } = result;
            // The units are refunded.
            snapshot.remaining = snapshot.remaining.saturating_add(check.cost).min(snapshot.limit);
            let delay = std::mem::take(&mut snapshot.delay);
            let is_late = check.policy.strategy().queues() && delay > max_wait;
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
}
