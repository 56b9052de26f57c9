//! What is known so far of a decision over several slots.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{
    Answer, Check, CheckResult, Checks, Key, Outcome, Position, Standby, StoreError, Timestamp,
};

use super::slots::SlotGroup;

/// A decision that is under way.
pub(super) struct PartialOutcome {
    checks: Checks,
    standby: Option<Arc<dyn Standby>>,
    /// What is known about each check, in their order.
    known: Vec<Known>,
    /// What the standby has decided.
    local: Vec<Outcome>,
    /// Why slots could not answer.
    failure: Option<StoreError>,
    /// Why the decision as a whole cannot be made.
    rejection: Option<StoreError>,
}

/// What is known about one check.
enum Known {
    Unasked,
    Answered {
        at: Timestamp,
        standing: CheckResult,
        /// Whether it was charged, and not given back yet.
        is_charged: bool,
    },
    Failed(StoreError),
    /// Its slot has failed, and its policy is open.
    Open,
    /// Its slot has failed, and the standby has decided, in the outcome of this index.
    Local(usize),
}

impl PartialOutcome {
    pub(super) fn new(checks: Checks, standby: Option<Arc<dyn Standby>>) -> Self {
        let known = checks.iter().map(|_| Known::Unasked).collect();
        Self { checks, standby, known, local: Vec::new(), failure: None, rejection: None }
    }

    pub(super) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// A slot has answered.
    pub(super) fn answered(
        &mut self,
        part: &SlotGroup,
        answers: impl IntoIterator<Item = (Timestamp, CheckResult)>,
    ) {
        let answers: Vec<_> = answers.into_iter().collect();
        let is_charged = answers.iter().all(|(_, standing)| standing.admitted);
        for (place, (at, standing)) in part.places.iter().zip(answers) {
            self.known[*place] = Known::Answered { at, standing, is_charged };
        }
    }

    /// A slot could not answer.
    pub(super) fn failed(&mut self, part: &SlotGroup, error: &StoreError) {
        for place in &part.places {
            self.known[*place] = Known::Failed(error.clone());
        }
    }

    /// Decides the checks whose slots could not answer, each as its policy says, unless a denial stands already: then nothing
    /// more is charged. If too much was asked of a slot, the decision is rejected, whatever the policies say.
    pub(super) fn decide_missing(&mut self) {
        let failures = self.known.iter().filter_map(|known| match known {
            Known::Failed(error) => Some(error.clone()),
            _ => None,
        });
        let Some(failure) = failures.reduce(worse_of) else { return };
        self.failure = Some(match self.failure.take() {
            Some(before) => worse_of(before, failure.clone()),
            None => failure.clone(),
        });
        if self.is_denied() {
            return;
        }
        if failure.kind().is_overload() {
            self.rejection = Some(failure);
            return;
        }
        // Without a standby nobody knows how long an outage has lasted whose error does not say.
        let outage = match &self.standby {
            Some(_) => Duration::MAX,
            None => failure.outage().unwrap_or(Duration::MAX),
        };
        let missing = || self.known.iter().zip(&self.checks).filter(|(known, _)| known.has_failed());
        if missing().all(|(_, check)| check.policy.failure_mode().is_open_after(outage)) {
            self.settle_missing(|| Known::Open);
            return;
        }
        let checks = together(missing().map(|(_, check)| check.clone()));
        match (&self.standby, checks) {
            (Some(standby), Some(checks)) => match standby.decide(checks, failure) {
                Ok(outcome) => {
                    let index = self.local.len();
                    self.failure = outcome.failure().cloned().or(self.failure.take());
                    self.local.push(outcome);
                    self.settle_missing(|| Known::Local(index));
                }
                Err(error) => self.rejection = Some(error),
            },
            _ => self.rejection = Some(failure),
        }
    }

    fn settle_missing(&mut self, settled: impl Fn() -> Known) {
        self.known.iter_mut().filter(|known| known.has_failed()).for_each(|known| *known = settled());
    }

    /// Whether a check is denied, by its slot or by the standby.
    fn is_denied(&self) -> bool {
        let is_denied =
            |known: &Known| matches!(known, Known::Answered { standing, .. } if !standing.admitted);
        self.known.iter().any(is_denied) || self.local.iter().any(|outcome| !outcome.is_allowed())
    }

    /// Whether it makes no difference any more what the slots would say that were not asked yet.
    pub(super) fn is_over(&self) -> bool {
        self.is_denied() || self.rejection.is_some()
    }

    /// Whether the request goes through, so that what was charged stays charged.
    pub(super) fn passes(&self) -> bool {
        !self.is_over() && self.is_metered()
    }

    /// Whether anybody has decided anything. If all slots have failed and all policies are open, the store has failed.
    fn is_metered(&self) -> bool {
        self.known.iter().any(|known| matches!(known, Known::Answered { .. } | Known::Local(_)))
    }

    /// The keys of a caller's own that are denied.
    pub(super) fn denied_keys(&self) -> impl Iterator<Item = Key> {
        let by_slot = self.known.iter().zip(&self.checks).filter_map(|(known, check)| match known {
            Known::Answered { standing, .. } if !standing.admitted => Some(check.key),
            _ => None,
        });
        let by_standby = self.local.iter().flat_map(|outcome| {
            let decided = outcome.checks().iter().zip(outcome.decisions());
            decided.filter(|(_, decision)| !decision.is_allowed()).map(|(check, _)| check.key)
        });
        by_slot.chain(by_standby).filter(|key| !key.is_shared())
    }

    /// What is to be given back at the slots, by its place and where the charge stands.
    pub(super) fn charged(&self) -> Vec<(usize, Check, Position)> {
        let known = self.known.iter().zip(&self.checks).enumerate();
        known
            .filter_map(|(place, (known, check))| match known {
                Known::Answered { standing, is_charged: true, .. } if check.cost > 0 => {
                    Some((place, check.clone(), standing.position))
                }
                _ => None,
            })
            .collect()
    }

    /// What was charged at a slot is given back: this is how the key stands.
    pub(super) fn given_back(&mut self, place: usize, at: Timestamp, standing: CheckResult) {
        self.known[place] = Known::Answered { at, standing, is_charged: false };
    }

    /// Gives back what the standby has charged.
    pub(super) fn give_back_local(&mut self) {
        let Some(standby) = &self.standby else { return };
        for outcome in &mut self.local {
            let failure = outcome.failure().cloned();
            for receipt in outcome.clone().into_receipts() {
                standby.refund(receipt);
            }
            // How the keys stand now is told by a peek. What was denied keeps its figures: nothing was charged.
            let peeks = together(outcome.checks().iter().map(|check| Check { cost: 0, ..check.clone() }));
            if let (true, Some(peeks), Some(failure)) = (outcome.is_allowed(), peeks, failure)
                && let Ok(peeked) = standby.decide(peeks, failure)
            {
                *outcome = peeked;
            }
        }
    }

    /// Tells the standby that the store has answered, if it has.
    pub(super) fn note(&self, answer: &Result<Outcome, StoreError>) {
        if let (Some(standby), Ok(outcome)) = (&self.standby, answer) {
            standby.note(outcome);
        }
    }

    /// What is answered. An overload is no failure that a policy has a mode for, so that what it left unanswered counts as not
    /// asked.
    pub(super) fn answer(&self) -> Result<Outcome, StoreError> {
        let failed = self.failure.clone();
        if let Some(error) = self.rejection.clone().filter(|_| !self.is_denied()) {
            return Err(error);
        }
        if let Some(failure) = failed.clone().filter(|_| !self.is_metered()) {
            return Err(failure);
        }
        let answers = self.known.iter().map(|known| match known {
            Known::Unasked => Answer::Unasked,
            Known::Answered { at, standing, .. } => Answer::Store(*at, *standing),
            Known::Failed(error) if error.kind().is_overload() => Answer::Unasked,
            Known::Failed(_) | Known::Open => Answer::Missing,
            Known::Local(index) => Answer::Standby(&self.local[*index]),
        });
        let outcome = Outcome::partial(self.checks.clone(), answers, failed);
        Ok(outcome.expect("what is not answered has failed, or was not asked"))
    }
}

impl Known {
    const fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Checks that went together before.
fn together(checks: impl IntoIterator<Item = Check>) -> Option<Checks> {
    checks.into_iter().fold(None, |checks, Check { policy, key, cost }| match checks {
        None => Some(Checks::one(policy, key, cost)),
        Some(checks) => checks.and(policy, key, cost).ok(),
    })
}

/// Merges two failures independently of their order: an overload wins, then an unknown fate, and the longer outage is kept.
/// Else it were chance which of them is heard first, whether a request is rejected or a policy is still open.
fn worse_of(one: StoreError, other: StoreError) -> StoreError {
    let outage = one.outage().max(other.outage());
    let rank = |error: &StoreError| (error.kind().is_overload(), error.kind().is_fate_unknown());
    let worse_of = if rank(&other) > rank(&one) { other } else { one };
    match outage {
        Some(outage) if !worse_of.kind().is_overload() => worse_of.lasting(outage),
        _ => worse_of,
    }
}

#[cfg(test)]
mod tests;
