//! The results of one call, apart from its checks.

use core::time::Duration;

use super::set_delays;
use crate::Decision;
use crate::charge::Position;
use crate::store::list::List;
use crate::store::{Check, Checks, Outcome, ReadyCheck};

/// What the checks of one call result in. The checks, which are large, are moved once, when this becomes an [`Outcome`].
// For the memory store alone.
#[doc(hidden)]
#[derive(Debug)]
pub struct Results {
    pub(super) decisions: List<Decision>,
    pub(super) positions: List<Position>,
    /// The index of the decisive decision.
    pub(super) decisive_index: usize,
}

impl Results {
    /// The results of one store, which `result` computes in the order of the checks: each is moved once, to its place.
    #[inline]
    pub fn of(checks: &Checks, mut result: impl FnMut(usize, &Check) -> ReadyCheck) -> Self {
        let mut positions = List::from_fn(checks.len(), |_| Position::default());
        let mut longest = Duration::ZERO;
        let mut decisions = List::from_fn(checks.len(), |index| {
            let ReadyCheck { decision, position } = result(index, &checks.checks[index]);
            positions[index] = position;
            longest = longest.max(decision.delay());
            decision
        });
        let mut decisive_index = 0;
        for (index, decision) in decisions.iter().enumerate().skip(1) {
            if decision.outranks(&decisions[decisive_index]) {
                decisive_index = index;
            }
        }
        set_delays(&mut decisions, decisive_index, longest);
        Self { decisions, positions, decisive_index }
    }

    /// The outcome of the checks that these are the results of.
    #[inline]
    pub fn into_outcome(self, checks: Checks) -> Outcome {
        Outcome::with_results(checks, self)
    }
}
