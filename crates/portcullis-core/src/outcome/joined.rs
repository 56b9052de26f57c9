//! Two decisions about one request.

use alloc::boxed::Box;
use core::num::NonZeroU64;

use smallvec::SmallVec;

use super::{Outcome, StandIn};
use crate::{Checks, Decision, Position, StoreError, Timestamp};

impl Outcome {
    /// The answer to `checks` that nobody has decided, because the store has failed and all their policies are open: they
    /// pass, and nothing is counted. The first decision is the one that counts.
    pub fn unanswered(checks: Checks, at: Timestamp, failure: StoreError) -> Self {
        let decisions = checks.iter().map(|check| Decision::degraded(&check.policy, at)).collect();
        let positions = checks.iter().map(|_| Position::default()).collect();
        let stand_in = Some(Box::new(StandIn { failure, ids: no_ids(checks.len()) }));
        Self { checks, decisions, positions, decider: 0, is_remembered: false, stand_in }
    }

    /// This answer and a later one to the same request as one, for a request that is decided in two steps.
    ///
    /// The decisions of `later` stand behind those of this one, each at the instant at which it was made. Which one counts
    /// is as if all had been decided at once, and its [delay](Decision::delay) is the longest of all. Each receipt goes back
    /// to where its charge was made.
    ///
    /// Returns `None` if either is a denial, which charges nothing and so has nothing to be joined with; if both have
    /// checked one policy and key; or if there are more than [`Checks::MAX`] checks.
    pub fn joined(self, later: Self) -> Option<Self> {
        if !self.is_allowed() || !later.is_allowed() {
            return None;
        }
        let delay = self.decision().delay().max(later.decision().delay());
        let stand_in = match (self.stand_in, later.stand_in) {
            (None, None) => None,
            (first, second) => {
                let ids_of = |stand_in: &Option<Box<StandIn>>, checks: &Checks| {
                    stand_in.as_ref().map_or_else(|| no_ids(checks.len()), |stand_in| stand_in.ids.clone())
                };
                let mut ids = ids_of(&first, &self.checks);
                ids.extend(ids_of(&second, &later.checks));
                let failure = first.or(second).map(|stand_in| stand_in.failure)?;
                Some(Box::new(StandIn { failure, ids }))
            }
        };
        let mut checks = self.checks;
        for check in later.checks.into_iter() {
            checks = checks.and(check.policy, check.key, check.cost).ok()?;
        }
        let (mut decisions, mut positions) = (self.decisions, self.positions);
        let mut decider = self.decider;
        for (offset, decision) in later.decisions.into_iter().enumerate() {
            // Of those in one answer the decider outranks the others already.
            if offset == later.decider && decision.outranks(decisions.get(decider)?) {
                decider = decisions.len();
            }
            decisions.push(decision);
        }
        positions.extend(later.positions);
        decisions.get_mut(decider)?.delayed_by(delay);
        Some(Self { checks, decisions, positions, decider, is_remembered: false, stand_in })
    }

    /// What has counted the check at `index` in place of the store, if it was not the store. See
    /// [`Receipt::stand_in`](crate::Receipt::stand_in).
    pub fn stand_in_of(&self, index: usize) -> Option<NonZeroU64> {
        self.stand_in.as_ref().and_then(|stand_in| stand_in.ids.get(index).copied().flatten())
    }
}

/// For checks that the store has answered, or nobody.
pub(super) fn no_ids(checks: usize) -> SmallVec<[Option<NonZeroU64>; 2]> {
    core::iter::repeat_n(None, checks).collect()
}
