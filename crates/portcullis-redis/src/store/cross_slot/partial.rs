//! The intermediate state of a decision over several slots.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Check, CheckResult, Checks, Outcome, Position, ServerResult, Standby};
use portcullis_core::{Key, StoreError, Timestamp};

use super::super::answers::{CheckGrant, together, under_grants_of, with_grants};
use super::slots::SlotGroup;

/// A decision in progress.
pub(super) struct PartialOutcome {
    /// Checks that were made under a grant have the policy with its quota.
    checks: Checks,
    grants: Vec<CheckGrant>,
    standby: Option<Arc<dyn Standby>>,
    /// The answer to each check, in their order.
    answers: Vec<CheckAnswer>,
    /// The standby's outcomes.
    local: Vec<Outcome>,
    /// A denial of a failed slot that is remembered.
    remembered: Option<Outcome>,
    /// Why slots failed.
    failure: Option<StoreError>,
    /// Why the decision as a whole cannot be made.
    rejection: Option<StoreError>,
}

/// The answer to one check.
enum CheckAnswer {
    NotAsked,
    Answered {
        at: Timestamp,
        result: CheckResult,
        /// Whether it was charged, and not refunded yet.
        is_charged: bool,
    },
    Failed(StoreError),
    /// Its slot has failed, and its policy is open.
    Open,
    /// Its slot has failed, and the standby has decided it, in the outcome of this index.
    Local(usize),
}

impl PartialOutcome {
    pub(super) fn new(checks: Checks, standby: Option<Arc<dyn Standby>>) -> Self {
        let answers = checks.iter().map(|_| CheckAnswer::NotAsked).collect();
        Self {
            checks,
            grants: Vec::new(),
            standby,
            answers,
            local: Vec::new(),
            remembered: None,
            failure: None,
            rejection: None,
        }
    }

    pub(super) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Records the grants under which a slot has made its checks.
    pub(super) fn granted(&mut self, group: &SlotGroup, grants: &[CheckGrant]) {
        for granted in grants {
            let Some(check) = group.indices.get(granted.check) else { continue };
            self.checks = self.checks.clone().with_policy(*check, granted.policy.clone());
            self.grants.push(CheckGrant { check: *check, ..granted.clone() });
        }
    }

    /// Records the reply of a slot.
    pub(super) fn answered(
        &mut self,
        group: &SlotGroup,
        answers: impl IntoIterator<Item = (Timestamp, CheckResult)>,
    ) {
        let answers: Vec<_> = answers.into_iter().collect();
        let is_charged = answers.iter().all(|(_, result)| result.admitted);
        for (index, (at, result)) in group.indices.iter().zip(answers) {
            self.answers[*index] = CheckAnswer::Answered { at, result, is_charged };
        }
    }

    /// Records the failure of a slot.
    pub(super) fn failed(&mut self, group: &SlotGroup, error: &StoreError) {
        for index in &group.indices {
            self.answers[*index] = CheckAnswer::Failed(error.clone());
        }
    }

    /// The checks whose slots decide nothing, and have certainly charged nothing.
    pub(super) fn unanswered(&self) -> Option<Checks> {
        let is_unanswered = |answer: &CheckAnswer| match answer {
            CheckAnswer::Failed(error) => !error.kind().is_overload() && !error.kind().is_fate_unknown(),
            _ => false,
        };
        let answers = self.answers.iter().zip(&self.checks);
        together(answers.filter(|(answer, _)| is_unanswered(answer)).map(|(_, check)| check.clone()))
    }

    /// Records the remembered denial of a slot that does not decide.
    pub(super) fn remembered(&mut self, denied: Option<Outcome>) {
        self.remembered = self.remembered.take().or(denied);
    }

    /// Decides the checks of failed slots by their policies' failure modes. If a check is denied already, no more is charged. If a
    /// slot is overloaded, the decision is rejected, whatever the failure modes.
    pub(super) fn decide_missing(&mut self) {
        let failures = self.answers.iter().filter_map(|answer| match answer {
            CheckAnswer::Failed(error) => Some(error.clone()),
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
        // Without a standby, the length of the outage is known only if the error contains it.
        let outage = match &self.standby {
            Some(_) => Duration::MAX,
            None => failure.outage().unwrap_or(Duration::MAX),
        };
        let missing = || self.answers.iter().zip(&self.checks).filter(|(answer, _)| answer.has_failed());
        let are_open = missing().all(|(_, check)| check.policy.failure_mode().is_open_after(outage));
        // The standby may know of a block, which lasts under an open policy as well.
        let may_be_blocked =
            self.standby.is_some() && missing().any(|(_, check)| check.policy.reads_overrides());
        if are_open && !may_be_blocked {
            self.settle_missing(|| CheckAnswer::Open);
            return;
        }
        let checks = together(missing().map(|(_, check)| check.clone()));
        match (&self.standby, checks) {
            (Some(standby), Some(checks)) => match standby.decide(checks, failure) {
                Ok(outcome) => {
                    let index = self.local.len();
                    self.failure = outcome.failure().cloned().or(self.failure.take());
                    let (checks, grants) = under_grants_of(&outcome, self.checks.clone());
                    self.checks = checks;
                    self.grants.extend(grants);
                    self.local.push(outcome);
                    self.settle_missing(|| CheckAnswer::Local(index));
                }
                Err(_) if are_open => self.settle_missing(|| CheckAnswer::Open),
                Err(error) => self.rejection = Some(error),
            },
            _ => self.rejection = Some(failure),
        }
    }

    fn settle_missing(&mut self, settled: impl Fn() -> CheckAnswer) {
        self.answers.iter_mut().filter(|answer| answer.has_failed()).for_each(|answer| *answer = settled());
    }

    /// Whether a check is denied, by its slot or by the standby.
    fn is_denied(&self) -> bool {
        let is_denied =
            |answer: &CheckAnswer| matches!(answer, CheckAnswer::Answered { result, .. } if !result.admitted);
        self.remembered.is_some()
            || self.answers.iter().any(is_denied)
            || self.local.iter().any(|outcome| !outcome.is_allowed())
    }

    /// Whether the slots that were not queried yet can no longer change the result.
    pub(super) fn is_over(&self) -> bool {
        self.is_denied() || self.rejection.is_some()
    }

    /// Whether the request is admitted, so that its charges stay.
    pub(super) fn passes(&self) -> bool {
        !self.is_over() && self.is_metered()
    }

    /// Whether a slot or the standby has decided a check. If all slots have failed and all policies are open, the store has failed.
    fn is_metered(&self) -> bool {
        self.answers
            .iter()
            .any(|answer| matches!(answer, CheckAnswer::Answered { .. } | CheckAnswer::Local(_)))
    }

    /// The denied keys that are not shared between clients.
    pub(super) fn denied_keys(&self) -> impl Iterator<Item = Key> {
        let by_slot = self.answers.iter().zip(&self.checks).filter_map(|(answer, check)| match answer {
            CheckAnswer::Answered { result, .. } if !result.admitted => Some(check.key),
            _ => None,
        });
        let by_standby = self.local.iter().flat_map(|outcome| {
            let decided = outcome.checks().iter().zip(outcome.decisions());
            decided.filter(|(_, decision)| !decision.is_allowed()).map(|(check, _)| check.key)
        });
        let held = self.remembered.iter().flat_map(Outcome::checks).map(|check| check.key);
        by_slot.chain(by_standby).chain(held).filter(|key| !key.is_shared())
    }

    /// The charges to refund at the slots: the index of the check, the check, and the position of the charge.
    pub(super) fn charged(&self) -> Vec<(usize, Check, Position)> {
        let answers = self.answers.iter().zip(&self.checks).enumerate();
        answers
            .filter_map(|(index, (answer, check))| match answer {
                CheckAnswer::Answered { result, is_charged: true, .. } if check.units() > 0 => {
                    Some((index, check.clone(), result.position))
                }
                _ => None,
            })
            .collect()
    }

    /// Records the refund of a slot's charge, with the figures after it.
    pub(super) fn refunded(&mut self, index: usize, at: Timestamp, result: CheckResult) {
        self.answers[index] = CheckAnswer::Answered { at, result, is_charged: false };
    }

    /// Refunds the standby's charges.
    pub(super) fn refund_local(&mut self) {
        let Some(standby) = &self.standby else { return };
        for outcome in &mut self.local {
            let failure = outcome.failure().cloned();
            for receipt in outcome.clone().into_receipts() {
                standby.refund(receipt);
            }
            // A peek returns the figures after the refund. A denial keeps its figures: nothing was charged.
            let peeks = together(outcome.checks().iter().map(|check| Check { cost: 0, ..check.clone() }));
            if let (true, Some(peeks), Some(failure)) = (outcome.is_allowed(), peeks, failure)
                && let Ok(peeked) = standby.decide(peeks, failure)
            {
                *outcome = peeked;
            }
        }
    }

    /// Notifies the standby of an answer of the store, if there is one.
    pub(super) fn note(&self, answer: &Result<Outcome, StoreError>) {
        if let (Some(standby), Ok(outcome)) = (&self.standby, answer) {
            standby.record(outcome);
        }
    }

    /// The result of the decision. The checks of an overloaded slot count as not asked.
    pub(super) fn answer(&self) -> Result<Outcome, StoreError> {
        if let Some(denied) = &self.remembered {
            return Ok(denied.clone());
        }
        let failed = self.failure.clone();
        if let Some(error) = self.rejection.clone().filter(|_| !self.is_denied()) {
            return Err(error);
        }
        if let Some(failure) = failed.clone().filter(|_| !self.is_metered()) {
            return Err(failure);
        }
        let answers = self.answers.iter().map(|answer| match answer {
            CheckAnswer::NotAsked => ServerResult::NotAsked,
            CheckAnswer::Answered { at, result, .. } => ServerResult::Store(*at, *result),
            CheckAnswer::Failed(error) if error.kind().is_overload() => ServerResult::NotAsked,
            CheckAnswer::Failed(_) | CheckAnswer::Open => ServerResult::Missing,
            CheckAnswer::Local(index) => ServerResult::Standby(&self.local[*index]),
        });
        let outcome = Outcome::partial(self.checks.clone(), answers, failed);
        let outcome = outcome.expect("what is not answered has failed, or was not asked");
        Ok(with_grants(outcome, &self.grants))
    }
}

impl CheckAnswer {
    const fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Merges two failures independently of their order: an overload wins, then an unknown result, and the longer outage is kept.
fn worse_of(one: StoreError, other: StoreError) -> StoreError {
    let outage = one.outage().max(other.outage());
    let rank = |error: &StoreError| (error.kind().is_overload(), error.kind().is_fate_unknown());
    let worse_of = if rank(&other) > rank(&one) { other } else { one };
    match outage {
        Some(outage) if !worse_of.kind().is_overload() => worse_of.with_outage(outage),
        _ => worse_of,
    }
}

#[cfg(test)]
mod tests;
