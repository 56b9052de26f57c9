//! The outcome of two decisions on one request.

use alloc::boxed::Box;
use core::num::NonZeroU64;

use smallvec::SmallVec;

use super::{Fallback, Outcome, Results};
use crate::charge::Position;
use crate::store::Checks;
use crate::{Decision, StoreError, Timestamp};

impl Outcome {
    /// The outcome of `checks` without a decision, because the store has failed and all their policies are open: the request
    /// is allowed, and no check is metered. The first decision is the decisive one.
    // For the layer alone, whose second decision on a request can fail while the first one stands.
    #[doc(hidden)]
    pub fn unanswered(checks: Checks, at: Timestamp, failure: StoreError) -> Self {
        let decisions = checks.iter().map(|check| Decision::degraded(&check.policy, at)).collect();
        let positions = checks.iter().map(|_| Position::default()).collect();
        let fallback = Some(Box::new(Fallback { failure, ids: no_ids(checks.len()) }));
        Self { fallback, ..Self::with_results(checks, Results { decisions, positions, decisive_index: 0 }) }
    }

    /// Joins this outcome with a later one for the same request, which is decided in two steps.
    ///
    /// The decisions of `later` follow those of this one, each at the instant at which it was made. The decisive
    /// decision is the same as if all had been made at once, and its [delay](Decision::delay) is the longest of all. Each receipt
    /// keeps the store or fallback that it was charged by. The outcome is [leased](Outcome::is_leased) if both are.
    ///
    /// Returns `None` if either is a denial, which charges nothing and so cannot be joined; if both have checked the same
    /// policy and key; or if there are more than [`Checks::MAX`] checks.
    // For the layer alone: a store makes one decision per call.
    #[doc(hidden)]
    pub fn joined(self, later: Self) -> Option<Self> {
        if !self.is_allowed() || !later.is_allowed() {
            return None;
        }
        let delay = self.decision().delay().max(later.decision().delay());
        let fallback = match (self.fallback, later.fallback) {
            (None, None) => None,
            (first, second) => {
                let ids_of = |fallback: &Option<Box<Fallback>>, checks: &Checks| {
                    fallback.as_ref().map_or_else(|| no_ids(checks.len()), |fallback| fallback.ids.clone())
                };
                let mut ids = ids_of(&first, &self.checks);
                ids.extend(ids_of(&second, &later.checks));
                let failure = first.or(second).map(|fallback| fallback.failure)?;
                Some(Box::new(Fallback { failure, ids }))
            }
        };
        let first_checks = self.checks.len();
        let mut grants = self.grants;
        for (index, grant) in later.grants.into_iter().flat_map(|later| later.of_checks) {
            grants.get_or_insert_default().of_checks.push((first_checks.saturating_add(index), grant));
        }
        let mut checks = self.checks;
        for check in later.checks.into_iter() {
            checks = checks.and(check.policy, check.key, check.cost).ok()?;
        }
        let (mut decisions, mut positions) = (self.decisions, self.positions);
        let mut decisive_index = self.decisive_index;
        for (offset, decision) in later.decisions.into_iter().enumerate() {
            // Within one outcome the decisive decision outranks the others already.
            if offset == later.decisive_index && decision.outranks(decisions.get(decisive_index)?) {
                decisive_index = decisions.len();
            }
            decisions.push(decision);
        }
        later.positions.into_iter().for_each(|position| positions.push(position));
        decisions.get_mut(decisive_index)?.delayed_by(delay);
        Some(Self {
            checks,
            decisions,
            positions,
            decisive_index,
            is_remembered: false,
            is_leased: self.is_leased && later.is_leased,
            fallback,
            grants,
        })
    }

    /// The id of the fallback that metered the check at `index`, if it was not the store. See
    /// [`Receipt::fallback_id`](crate::Receipt::fallback_id).
    pub fn fallback_id_of(&self, index: usize) -> Option<NonZeroU64> {
        self.fallback.as_ref().and_then(|fallback| fallback.ids.get(index).copied().flatten())
    }
}

/// The ids of checks that no fallback has metered.
pub(super) fn no_ids(checks: usize) -> SmallVec<[Option<NonZeroU64>; 2]> {
    core::iter::repeat_n(None, checks).collect()
}
