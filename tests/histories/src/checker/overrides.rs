//! The blocks or the grants of a key: which were certainly in force when a check ran, and which can have been.

use super::super::{Call, Op, Outcome};
use super::clock::Clock;
use super::{Loss, drift, is_lost, latest_run};

/// The calls that have set or ended blocks of a key, or its grants.
pub(super) struct Overrides<'a> {
    ops: &'a [&'a Op],
    losses: &'a [Loss],
    clock: Clock,
    /// Whether a call sets or ends one.
    is_change: fn(&Call) -> bool,
}

impl<'a> Overrides<'a> {
    pub(super) fn new(ops: &'a [&'a Op], losses: &'a [Loss], is_change: fn(&Call) -> bool) -> Self {
        Self { ops, losses, clock: Clock::of(ops), is_change }
    }

    /// The calls that have set an override or may have, with its length.
    fn set(&self, length_of: impl Fn(&Call) -> Option<u64>) -> impl Iterator<Item = (&Op, u64)> {
        let ran = self.ops.iter().copied().filter(|op| op.is_answered() || op.is_unknown());
        ran.filter_map(move |op| Some((op, length_of(&op.call)?)))
    }

    /// Whether one of these overrides is in force whenever a check runs.
    pub(super) fn is_certain(&self, check: &Op, length_of: impl Fn(&Call) -> Option<u64>) -> bool {
        self.set(length_of).any(|(set, length)| {
            let is_before = set.completed <= check.invoked;
            let in_force = (set.invoked + length).saturating_sub(drift(length)) > check.completed;
            let may_end = |other: &&&Op| {
                let between = other.invoked <= check.completed && latest_run(other) >= set.invoked;
                (self.is_change)(&other.call)
                    && between
                    && !std::ptr::eq(**other, set)
                    && !matches!(other.outcome, Outcome::NotDone(_))
            };
            let is_kept = !is_lost(self.losses, set.invoked, check.completed);
            set.is_answered() && is_before && in_force && is_kept && !self.ops.iter().any(|op| may_end(&op))
        })
    }

    /// Whether one of these overrides can be in force when a check runs.
    pub(super) fn is_possible(&self, check: &Op, length_of: impl Fn(&Call) -> Option<u64>) -> bool {
        self.set(length_of).filter(|(set, _)| set.invoked <= check.completed).any(|(set, length)| {
            // After a step of the clock an override ends after its length at the latest.
            let steps = self.clock.steps().filter(|step| set.invoked <= *step);
            let latest = steps.chain([latest_run(set)]).max().unwrap_or_default();
            let has_ended = latest.saturating_add(length + drift(length)) < check.invoked;
            !has_ended && !self.ops.iter().any(|op| self.has_replaced(op, set, check))
        })
    }

    /// Whether an answered call has certainly ended or replaced an override before a check, and was not undone.
    fn has_replaced(&self, op: &Op, set: &Op, check: &Op) -> bool {
        (self.is_change)(&op.call)
            && op.is_answered()
            && op.invoked >= latest_run(set)
            && op.completed <= check.invoked
            && !is_lost(self.losses, op.invoked, check.completed)
    }
}
