//! Outcomes: the decisions and receipts of one request.

mod granted;
mod joined;
mod leased;
mod part;
mod peeked;
mod queue;
mod remembered;
mod results;
mod shares;
mod unmetered;

use alloc::boxed::Box;
use core::num::NonZeroU64;
use core::time::Duration;

use smallvec::SmallVec;

pub use results::Results;

use crate::algorithm::CheckResult;
use crate::charge::{Position, Run};
use crate::store::list::List;
use crate::store::{Check, Checks, ReadyCheck};
use crate::{Decision, Key, Policy, Receipt, StoreError, Timestamp};

/// The result of one check of a decision that several servers make together.
#[derive(Clone, Debug)]
// Exhaustive: stores with several servers build it.
pub enum ServerResult<'a> {
    /// The server has answered, at an instant on its own clock.
    Store(Timestamp, CheckResult),
    /// The server has failed and a [standby](crate::store::Standby) has decided. Its outcome includes this check and may include
    /// others.
    Standby(&'a Outcome),
    /// The server has failed and there is no other decision: this check allows the request, and its decision is
    /// [degraded](Decision::is_degraded).
    Missing,
    /// The server was not asked, because another check had already been denied.
    NotAsked,
}

/// The result of [`Checks`]: one decision per check, one of which is decisive.
#[derive(Clone, Debug)]
#[must_use = "an outcome that is ignored limits nothing"]
pub struct Outcome {
    checks: Checks,
    decisions: List<Decision>,
    positions: List<Position>,
    /// The index of the decisive decision.
    decisive_index: usize,
    is_remembered: bool,
    is_leased: bool,
    /// Boxed, because it is rarely present and an outcome is moved often.
    fallback: Option<Box<Fallback>>,
    /// Boxed as well.
    grants: Option<Box<granted::Grants>>,
}

/// The failure of a store, and the fallbacks that were charged because of it.
#[derive(Clone, Debug)]
struct Fallback {
    failure: StoreError,
    /// The fallback of each check; `None` if the store was charged, or the check was not metered.
    ids: SmallVec<[Option<NonZeroU64>; 2]>,
}

impl Outcome {
    /// Makes an outcome of a store's results: one per check, in their order, at one instant.
    ///
    /// The denial with the longest wait is decisive. Without a denial it is the decision with the least remaining, then the
    /// longest reset, then the first.
    ///
    /// Returns `None` if there are fewer results than checks.
    pub fn new(
        checks: Checks,
        at: Timestamp,
        results: impl IntoIterator<Item = CheckResult>,
    ) -> Option<Self> {
        let results = results.into_iter().map(|result| ServerResult::Store(at, result));
        Self::assemble(checks, at, results, None)
    }

    /// The outcome of a single check whose result [was ready](crate::store::Store::check_now).
    ///
    /// Returns `None` for several checks.
    pub fn single(checks: Checks, ready: ReadyCheck) -> Option<Self> {
        let List::One([check]) = checks.checks else { return None };
        Some(Self::of_one(check, ready))
    }

    /// Like [`single`](Self::single), where the check is known to be one.
    // Not inlined, so that it writes the outcome where its caller returns it: an inlined one is built beside that and moved there.
    #[inline(never)]
    pub fn of_one(check: Check, ReadyCheck { decision, position }: ReadyCheck) -> Self {
        Self {
            checks: Checks { checks: List::One([check]) },
            decisions: List::One([decision]),
            positions: List::One([position]),
            decisive_index: 0,
            is_remembered: false,
            is_leased: false,
            fallback: None,
            grants: None,
        }
    }

    /// Like [`Outcome::new`], for a store with several servers of which some may have failed with `failure`: one result per
    /// check, in their order.
    ///
    /// Returns `None` if there are fewer results than checks, if a server has failed but `failure` is `None`, or if the
    /// outcome of a standby has no decision for its check.
    pub fn partial<'a>(
        checks: Checks,
        results: impl IntoIterator<Item = ServerResult<'a>>,
        failure: Option<StoreError>,
    ) -> Option<Self> {
        let results: SmallVec<[ServerResult<'a>; 2]> = results.into_iter().collect();
        let has_failed =
            |result: &ServerResult<'_>| matches!(result, ServerResult::Standby(_) | ServerResult::Missing);
        if failure.is_none() && results.iter().any(has_failed) {
            return None;
        }
        let at = results.iter().find_map(|result| match result {
            ServerResult::Store(at, _) => Some(*at),
            ServerResult::Standby(_) | ServerResult::Missing | ServerResult::NotAsked => None,
        });
        let of_standby = || {
            results.iter().find_map(|result| match result {
                ServerResult::Standby(outcome) => Some(outcome.decision().at()),
                _ => None,
            })
        };
        let at = at.or_else(of_standby).unwrap_or(Timestamp::EPOCH);
        Self::assemble(checks, at, results, failure)
    }

    /// The outcome of checks whose results were computed apart from them.
    #[inline]
    pub(crate) fn with_results(checks: Checks, results: Results) -> Self {
        let Results { decisions, positions, decisive_index } = results;
        Self {
            checks,
            decisions,
            positions,
            decisive_index,
            is_remembered: false,
            is_leased: false,
            fallback: None,
            grants: None,
        }
    }

    fn assemble<'a>(
        checks: Checks,
        at: Timestamp,
        results: impl IntoIterator<Item = ServerResult<'a>>,
        failure: Option<StoreError>,
    ) -> Option<Self> {
        let mut decisions = List::<Decision>::EMPTY;
        let mut positions = List::EMPTY;
        let mut ids: SmallVec<[Option<NonZeroU64>; 2]> = SmallVec::new();
        let mut decisive_index = 0;
        let mut longest = Duration::ZERO;
        for (check, result) in checks.iter().zip(results) {
            let (decision, position, id) = match result {
                ServerResult::Store(at, result) => {
                    (Decision::new(&check.policy, at, result.snapshot), result.position, None)
                }
                ServerResult::Standby(outcome) => {
                    let (index, decision, position) = outcome.find(&check.policy, check.key)?;
                    (decision.clone(), position, outcome.fallback_id_of(index))
                }
                ServerResult::Missing => (Decision::degraded(&check.policy, at), Position::default(), None),
                ServerResult::NotAsked => (Decision::not_asked(&check.policy, at), Position::default(), None),
            };
            positions.push(position);
            // Without a failure the ids are not needed, and for more than two checks they would be on the heap.
            if failure.is_some() {
                ids.push(id);
            }
            longest = longest.max(decision.delay());
            if decisions.get(decisive_index).is_some_and(|best| decision.outranks(best)) {
                decisive_index = decisions.len();
            }
            decisions.push(decision);
        }
        set_delays(&mut decisions, decisive_index, longest);
        (decisions.len() == checks.len()).then_some(Self {
            checks,
            decisions,
            positions,
            decisive_index,
            is_remembered: false,
            is_leased: false,
            fallback: failure.map(|failure| Box::new(Fallback { failure, ids })),
            grants: None,
        })
    }

    /// The outcome of a fallback, with the id `id`, for a store that has failed. The checks that it `metered`, identified by
    /// policy and key, have its decisions; the others allow the request. All decisions are
    /// [degraded](Decision::is_degraded).
    ///
    /// ```
    /// use core::num::NonZeroU64;
    /// use portcullis::store::{Checks, Outcome, StoreErrorKind};
    /// use portcullis::{Policy, Quota, Secret, StoreError, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let checks = Checks::one(Policy::gcra("pages", Quota::per_second(1)), hasher.finish()?, 1);
    /// let failure = StoreError::new(StoreErrorKind::Unavailable, "no connection");
    /// let outcome = Outcome::from_fallback(checks, None, Timestamp::EPOCH, failure.clone(), NonZeroU64::MIN);
    /// assert!(outcome.is_allowed() && outcome.decision().is_degraded());
    /// assert_eq!(outcome.failure(), Some(&failure));
    /// assert_eq!(outcome.into_receipts().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_fallback(
        checks: Checks,
        metered: Option<&Self>,
        at: Timestamp,
        failure: StoreError,
        id: NonZeroU64,
    ) -> Self {
        let mut decisions = List::<Decision>::EMPTY;
        let mut positions = List::EMPTY;
        let mut decisive_index = 0;
        for Check { policy, key, .. } in &checks {
            let found = metered.and_then(|metered| metered.find(policy, *key));
            let (decision, position) = match found {
                Some((_, decision, position)) => (decision.clone().as_fallback(), position),
                None => (Decision::degraded(policy, at), Position::default()),
            };
            if decisions.get(decisive_index).is_some_and(|best| decision.outranks(best)) {
                decisive_index = decisions.len();
            }
            decisions.push(decision);
            positions.push(position);
        }
        let ids = checks.iter().map(|_| Some(id)).collect();
        let fallback = Some(Box::new(Fallback { failure, ids }));
        Self { fallback, ..Self::with_results(checks, Results { decisions, positions, decisive_index }) }
    }

    /// The index, the decision and the position of a check.
    fn find(&self, policy: &Policy, key: Key) -> Option<(usize, &Decision, Position)> {
        let index = self.checks.iter().position(|check| check.is_about(policy.name(), key))?;
        Some((index, self.decisions.get(index)?, *self.positions.get(index)?))
    }

    /// The error of the store, if all or a part of it did not answer.
    #[inline]
    pub fn failure(&self) -> Option<&StoreError> {
        self.fallback.as_ref().map(|fallback| &fallback.failure)
    }

    /// The id of the fallback that was charged because the store could not answer. See [`Receipt::fallback_id`].
    pub fn fallback_id(&self) -> Option<NonZeroU64> {
        self.fallback.as_ref().and_then(|fallback| fallback.ids.iter().copied().flatten().next())
    }

    /// The checks; for a [remembered](Outcome::remembered) denial only the check that was denied.
    #[inline]
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The decisive decision. See [`Decision::decisive`].
    #[inline]
    pub fn decision(&self) -> &Decision {
        &self.decisions[self.decisive_index]
    }

    /// Whether all checks were charged and the request is allowed.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.decision().is_allowed()
    }

    /// The decision of each policy, in the order of the checks. If another policy denies the request, a decision may still
    /// allow it, but nothing was charged.
    #[inline]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The result of each check, in the order of the checks. For stores that make an outcome of the outcomes of several calls.
    pub fn results(&self) -> impl Iterator<Item = CheckResult> {
        self.decisions.iter().zip(self.positions.iter()).map(|(decision, position)| CheckResult {
            admitted: decision.is_allowed(),
            snapshot: decision.snapshot(),
            position: *position,
        })
    }

    /// Consumes the outcome and returns [`decision`](Outcome::decision).
    pub fn into_decision(self) -> Decision {
        self.decisions.take(self.decisive_index)
    }

    /// One receipt per check that was charged: none if the outcome is a denial or a peek, or if the check was not
    /// [metered](Decision::is_metered).
    pub fn into_receipts(self) -> impl Iterator<Item = Receipt> {
        let allowed = self.is_allowed();
        let fallback_ids: SmallVec<[Option<NonZeroU64>; 2]> =
            (0..self.decisions.len()).map(|index| self.fallback_id_of(index)).collect();
        let charges = self.checks.into_iter().zip(self.positions);
        charges
            .zip(self.decisions.into_iter().zip(fallback_ids))
            .filter(move |((check, _), (decision, _))| allowed && decision.is_metered() && check.cost > 0)
            .map(|((check, position), (decision, fallback_id))| {
                let Check { policy, key, cost: units } = check;
                Receipt::new(policy, key, Run { units, position }, decision.at(), fallback_id)
            })
    }
}

/// Sets the delay of the decisive decision to the longest of all or, for a denial, all delays to zero.
fn set_delays(decisions: &mut [Decision], decisive_index: usize, longest: Duration) {
    match decisions.get_mut(decisive_index).filter(|decisive| decisive.is_allowed()) {
        Some(decisive) => decisive.delayed_by(longest),
        // No slot of a queue was reserved.
        None => decisions.iter_mut().for_each(|decision| decision.delayed_by(Duration::ZERO)),
    }
}

#[cfg(test)]
mod tests;
