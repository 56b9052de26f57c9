//! From the states that a store kept to decisions and receipts.

mod joined;
mod queue;
mod remembered;

use alloc::boxed::Box;
use core::num::NonZeroU64;
use core::time::Duration;

use smallvec::SmallVec;

use crate::checks::Check;
use crate::{
    Checks, Decision, Key, Policy, Position, Receipt, Snapshot, State, StoreError, Strategy, Timestamp,
};

/// What a store did about one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Whether this check, taken alone, fits.
    pub admitted: bool,
    /// The figures of the state as it stands now: charged if *all* checks fit, else as it was.
    pub snapshot: Snapshot,
    /// Where the charge stands in the state, for when it is taken back.
    pub position: Position,
}

impl CheckResult {
    /// Computes the figures from the state as it stands at `now`.
    pub fn of(strategy: &Strategy, state: Option<&State>, now: Timestamp, cost: u32, admitted: bool) -> Self {
        let snapshot = strategy.snapshot(state, now, cost, admitted);
        Self { admitted, snapshot, position: strategy.position(state, now) }
    }
}

/// What is known about one check of a decision that lies with several servers.
#[derive(Clone, Debug)]
pub enum Answer<'a> {
    /// A server has answered, at an instant of its own clock.
    Store(Timestamp, CheckResult),
    /// The server has failed, and a [standby](crate::Standby) has decided: this is its outcome, of this check and maybe others.
    Standby(&'a Outcome),
    /// The server has failed, and nobody has decided: as far as this check is concerned the request goes through, and the
    /// decision is [degraded](Decision::is_degraded).
    Missing,
    /// The server was not asked, because another check had been denied before.
    Unasked,
}

/// The answer to [`Checks`]: one decision per check, and the one that decided.
#[derive(Clone, Debug)]
#[must_use = "an outcome that nobody looks at limits nothing"]
pub struct Outcome {
    checks: Checks,
    decisions: SmallVec<[Decision; 2]>,
    positions: SmallVec<[Position; 2]>,
    decider: usize,
    is_remembered: bool,
    /// In a box, because it is seldom there and the answer is moved often.
    stand_in: Option<Box<StandIn>>,
}

/// What an outcome came from, where the store could not answer.
#[derive(Clone, Debug)]
struct StandIn {
    failure: StoreError,
    /// By check; `None` where the store has counted, or nobody.
    ids: SmallVec<[Option<NonZeroU64>; 2]>,
}

impl Outcome {
    /// Puts together what a store did: one standing per check, in their order, at one instant.
    ///
    /// The decision that counts is that of the denying policy with the longest wait; if none denies, of the policy with
    /// the least remaining; then the longest reset; then the first.
    ///
    /// Returns `None` if there are fewer standings than checks.
    pub fn new(
        checks: Checks,
        at: Timestamp,
        standings: impl IntoIterator<Item = CheckResult>,
    ) -> Option<Self> {
        let answers = standings.into_iter().map(|standing| Answer::Store(at, standing));
        Self::put_together(checks, at, answers, None)
    }

    /// Like [`Outcome::new`], of a store that is spread over several servers, some of which may have failed, because of
    /// `failure`: one answer per check, in their order.
    ///
    /// Returns `None` if there are fewer answers than checks, if a server has failed and there is no failure, or if the outcome
    /// of a standby has no decision for its check.
    pub fn partial<'a>(
        checks: Checks,
        answers: impl IntoIterator<Item = Answer<'a>>,
        failure: Option<StoreError>,
    ) -> Option<Self> {
        let answers: SmallVec<[Answer<'a>; 2]> = answers.into_iter().collect();
        let has_failed = |answer: &Answer<'_>| matches!(answer, Answer::Standby(_) | Answer::Missing);
        if failure.is_none() && answers.iter().any(has_failed) {
            return None;
        }
        let at = answers.iter().find_map(|answer| match answer {
            Answer::Store(at, _) => Some(*at),
            Answer::Standby(_) | Answer::Missing | Answer::Unasked => None,
        });
        let of_standby = || {
            answers.iter().find_map(|answer| match answer {
                Answer::Standby(outcome) => Some(outcome.decision().at()),
                _ => None,
            })
        };
        let at = at.or_else(of_standby).unwrap_or(Timestamp::EPOCH);
        Self::put_together(checks, at, answers, failure)
    }

    fn put_together<'a>(
        checks: Checks,
        at: Timestamp,
        answers: impl IntoIterator<Item = Answer<'a>>,
        failure: Option<StoreError>,
    ) -> Option<Self> {
        let mut decisions: SmallVec<[Decision; 2]> = SmallVec::new();
        let mut positions = SmallVec::new();
        let mut ids: SmallVec<[Option<NonZeroU64>; 2]> = SmallVec::new();
        let mut decider = 0;
        let mut longest = Duration::ZERO;
        for (check, answer) in checks.iter().zip(answers) {
            let (decision, position, id) = match answer {
                Answer::Store(at, standing) => {
                    (Decision::new(&check.policy, at, standing.snapshot), standing.position, None)
                }
                Answer::Standby(outcome) => {
                    let (index, decision, position) = outcome.of(&check.policy, check.key)?;
                    (decision.clone(), position, outcome.stand_in_of(index))
                }
                Answer::Missing => (Decision::degraded(&check.policy, at), Position::default(), None),
                Answer::Unasked => (Decision::unasked(&check.policy, at), Position::default(), None),
            };
            positions.push(position);
            // For more than two checks it would be on the heap.
            if failure.is_some() {
                ids.push(id);
            }
            longest = longest.max(decision.delay());
            if decisions.get(decider).is_some_and(|best| decision.outranks(best)) {
                decider = decisions.len();
            }
            decisions.push(decision);
        }
        if decisions.get(decider)?.is_allowed() {
            decisions.get_mut(decider)?.delayed_by(longest);
        } else {
            // Nothing has taken a slot.
            decisions.iter_mut().for_each(|decision| decision.delayed_by(Duration::ZERO));
        }
        (decisions.len() == checks.len()).then_some(Self {
            checks,
            decisions,
            positions,
            decider,
            is_remembered: false,
            stand_in: failure.map(|failure| Box::new(StandIn { failure, ids })),
        })
    }

    /// The answer in place of a store that has failed: that of the stand-in `id` to those of `checks` which it `counted`,
    /// by policy and key, and for the others that they go through. All decisions are [degraded](Decision::is_degraded).
    ///
    /// ```
    /// use core::num::NonZeroU64;
    /// use portcullis_core::{Checks, Outcome, Policy, Quota, Secret, StoreError, StoreErrorKind, Timestamp};
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
        counted: Option<&Self>,
        at: Timestamp,
        failure: StoreError,
        id: NonZeroU64,
    ) -> Self {
        let mut decisions: SmallVec<[Decision; 2]> = SmallVec::new();
        let mut positions = SmallVec::new();
        let mut decider = 0;
        for Check { policy, key, .. } in &checks {
            let found = counted.and_then(|counted| counted.of(policy, *key));
            let (decision, position) = match found {
                Some((_, decision, position)) => (decision.clone().as_fallback(), position),
                None => (Decision::degraded(policy, at), Position::default()),
            };
            if decisions.get(decider).is_some_and(|best| decision.outranks(best)) {
                decider = decisions.len();
            }
            decisions.push(decision);
            positions.push(position);
        }
        let ids = checks.iter().map(|_| Some(id)).collect();
        let stand_in = Some(Box::new(StandIn { failure, ids }));
        Self { checks, decisions, positions, decider, is_remembered: false, stand_in }
    }

    /// The index of a check, its decision, and where its charge stands.
    fn of(&self, policy: &Policy, key: Key) -> Option<(usize, &Decision, Position)> {
        let index =
            self.checks.iter().position(|check| check.key == key && check.policy.name() == policy.name())?;
        Some((index, self.decisions.get(index)?, *self.positions.get(index)?))
    }

    /// Why the store did not answer, or a part of it, if that was so.
    pub fn failure(&self) -> Option<&StoreError> {
        self.stand_in.as_ref().map(|stand_in| &stand_in.failure)
    }

    /// What has counted in place of the store, if it could not answer. See [`Receipt::stand_in`].
    pub fn stand_in(&self) -> Option<NonZeroU64> {
        self.stand_in.as_ref().and_then(|stand_in| stand_in.ids.iter().copied().flatten().next())
    }

    /// What was asked; of a [remembered](Outcome::remembered) denial only the check that was denied.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The decision that counts.
    pub fn decision(&self) -> &Decision {
        &self.decisions[self.decider]
    }

    /// Whether everything was charged and the request goes through.
    pub fn is_allowed(&self) -> bool {
        self.decision().is_allowed()
    }

    /// What each policy has to say, in the order of the checks. A policy that would have allowed what another denied
    /// says so, and has charged nothing.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The decision that counts, without the rest.
    pub fn into_decision(mut self) -> Decision {
        self.decisions.swap_remove(self.decider)
    }

    /// One receipt per check that was charged: none if the outcome is a denial or a peek, nor for a check that nobody
    /// [counted](Decision::is_metered).
    pub fn into_receipts(self) -> impl Iterator<Item = Receipt> {
        let allowed = self.is_allowed();
        let stand_ins: SmallVec<[Option<NonZeroU64>; 2]> =
            (0..self.decisions.len()).map(|index| self.stand_in_of(index)).collect();
        let answers = self.decisions.into_iter().map(|decision| (decision.is_metered(), decision.at()));
        self.checks
            .into_iter()
            .zip(self.positions)
            .zip(answers.zip(stand_ins))
            .filter(move |((check, _), ((counted, _), _))| allowed && *counted && check.cost > 0)
            .map(move |((check, position), ((_, at), stand_in))| Receipt::new(check, position, at, stand_in))
    }
}

#[cfg(test)]
mod tests;
