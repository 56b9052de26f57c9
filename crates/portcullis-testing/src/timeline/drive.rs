//! Runs one timeline on two systems.

use std::collections::VecDeque;
use std::time::Duration;

use portcullis_core::store::{Checks, Renewal};
use portcullis_core::{ChecksError, Decision, Key, Policy, Receipt, Retry, Timestamp};

use super::callers::caller;
use super::difference::{Difference, keep_common_fields};
use super::{Amount, Mix, Operation, Step, Timeline, Timing, policy};
use crate::runner::{fresh_namespace, key};
use crate::subject::SystemUnderTest;

/// Runs `timeline` on both systems with fresh keys, and compares every field of every answer: all decisions of a check
/// where both systems return them, receipts, and settlements.
///
/// # Errors
///
/// At the first difference, or if a system fails to answer.
pub async fn compare(
    one: &mut dyn SystemUnderTest,
    other: &mut dyn SystemUnderTest,
    timeline: &Timeline,
) -> Result<Mix, Difference> {
    let mut drive = Drive {
        one,
        other,
        timeline,
        namespace: fresh_namespace(),
        generation: 0,
        now: timeline.start,
        policies: timeline.policies(),
        announced: VecDeque::new(),
        receipts: VecDeque::new(),
        mix: Mix::default(),
    };
    for (index, step) in timeline.steps.iter().enumerate() {
        drive.step(step).await.map_err(|difference| difference.at_step(timeline, index))?;
    }
    Ok(drive.mix)
}

struct Drive<'a> {
    one: &'a mut dyn SystemUnderTest,
    other: &'a mut dyn SystemUnderTest,
    timeline: &'a Timeline,
    namespace: String,
    /// Counts restarts: when time comes near the end of its range, the timeline continues at its start, with other keys.
    generation: u32,
    now: Timestamp,
    policies: Vec<Policy>,
    /// Instants announced by recent decisions, the latest decision last.
    announced: VecDeque<Timestamp>,
    receipts: VecDeque<(Receipt, Receipt)>,
    mix: Mix,
}

impl Drive<'_> {
    async fn step(&mut self, step: &Step) -> Result<(), Difference> {
        self.now = self.resolve(step.timing);
        if self.now >= HORIZON {
            self.generation += 1;
            self.now = self.timeline.start;
            self.announced.clear();
            self.receipts.clear();
        }
        self.mix.steps += 1;
        let near = |instant: &Timestamp| instant.as_micros().abs_diff(self.now.as_micros()) <= 1;
        self.mix.announced += u64::from(self.announced.iter().any(near));
        match &step.operation {
            Operation::Check { key, only, amounts } => self.check(*key, *only, amounts).await?,
            Operation::Refund { which, with_current_quota, if_newest } => {
                if let Some((one, other)) = self.receipt(*which, *with_current_quota) {
                    let made = |receipt: Receipt| if *if_newest { receipt.if_newest() } else { receipt };
                    self.refund(made(one), made(other)).await?;
                }
            }
            Operation::Settle { which, to, with_current_quota } => {
                if let Some((one, other)) = self.receipt(*which, *with_current_quota) {
                    self.settle(one, other, *to).await?;
                }
            }
            Operation::Join { which, most } => self.join(*which, *most),
            Operation::RefundOldest { most } => {
                for _ in 0..*most {
                    let Some((one, other)) = self.receipts.pop_front() else { break };
                    self.refund(one, other).await?;
                }
            }
            Operation::Renew { which } => self.renew(*which).await?,
            Operation::Reset { key, policy } => {
                let (key, policy) = (self.key(*key), &self.policies[policy % self.policies.len()]);
                let one = self.one.reset(self.now, policy, key).await;
                let other = self.other.reset(self.now, policy, key).await;
                Difference::expect_equal(self.now, || "a reset".to_owned(), one, other)?;
            }
            Operation::SetQuota { policy: index, to } => {
                let index = index % self.policies.len();
                self.policies[index] = policy(self.policies[index].name(), *to);
            }
        }
        Ok(())
    }

    async fn refund(&mut self, one: Receipt, other: Receipt) -> Result<(), Difference> {
        let described = describe_receipt(&one);
        self.mix.count_corrected(&one);
        let one = self.one.refund(self.now, one).await;
        let other = self.other.refund(self.now, other).await;
        let what = || format!("a refund of {described}");
        let (decision, _) = Difference::expect_equal(self.now, what, one, other)?;
        self.announce(&decision);
        Ok(())
    }

    async fn renew(&mut self, which: usize) -> Result<(), Difference> {
        let Some(newest) = self.receipts.len().checked_sub(1) else { return Ok(()) };
        let (one, other) = &self.receipts[newest - which % self.receipts.len()];
        let what = || format!("a renewal of {}", describe_receipt(one));
        let (one_answer, other_answer) = (
            self.one.renew(self.now, Renewal::of(one)).await,
            self.other.renew(self.now, Renewal::of(other)).await,
        );
        Difference::expect_equal(self.now, what, one_answer, other_answer).map(drop)
    }

    async fn settle(&mut self, one: Receipt, other: Receipt, to: Amount) -> Result<(), Difference> {
        let (described, to) = (describe_receipt(&one), to.resolve(one.policy().strategy().limit()));
        self.mix.count_corrected(&one);
        let one = self.one.settle(self.now, one, to).await;
        let other = self.other.settle(self.now, other, to).await;
        let what = || format!("a settlement to {to} of {described}");
        let (one, other) = Difference::expect_equal(self.now, what, one, other)?;
        self.announce(&one.decision);
        let left = one.receipt.zip(other.receipt).filter(|(receipt, _)| receipt.cost() > 0);
        self.receipts.extend(left);
        Ok(())
    }

    async fn check(
        &mut self,
        key: usize,
        only: Option<usize>,
        amounts: &[Amount; 3],
    ) -> Result<(), Difference> {
        let key = self.key(key);
        let only = only.map(|index| index % self.policies.len());
        let policies: Vec<Policy> =
            self.policies.iter().map(|policy| caller(policy, self.mix.steps)).collect();
        let asked = policies.iter().zip(amounts).enumerate();
        let mut asked = asked.filter(|(index, _)| only.is_none_or(|only| only == *index));
        let (_, (first, amount)) = asked.next().expect("a timeline has at least one policy");
        let mut checks = Checks::one(first.clone(), key, amount.resolve(first.strategy().limit()));
        for (_, (policy, amount)) in asked {
            let more = checks.clone().and(policy.clone(), key, amount.resolve(policy.strategy().limit()));
            checks = match more {
                Ok(more) => more,
                // The work limit of a decision admits only one window of a thousand slots.
                Err(ChecksError::TooMuchWork(_)) => continue,
                Err(error) => unreachable!("the policies of a timeline have distinct names: {error}"),
            };
        }
        let peek = checks.iter().all(|check| check.cost == 0);
        let asked = checks.clone();
        let mut one = self.one.check(self.now, checks.clone()).await;
        let mut other = self.other.check(self.now, checks).await;
        if let (Ok(one), Ok(other)) = (&mut one, &mut other) {
            keep_common_fields(one, other);
        }
        if !self.one.hands_out_receipts() || !self.other.hands_out_receipts() {
            for checked in [&mut one, &mut other].into_iter().flatten() {
                checked.receipts.clear();
            }
        }
        let (one, other) = Difference::expect_equal(self.now, || describe(&asked), one, other)?;
        self.mix.count(&one, peek);
        self.announce(&one.decision);
        for decision in &one.decisions {
            self.announce(decision);
        }
        self.receipts.extend(one.receipts.into_iter().zip(other.receipts));
        while self.receipts.len() > RECEIPTS_HELD {
            self.receipts.pop_front();
        }
        Ok(())
    }

    fn resolve(&self, timing: Timing) -> Timestamp {
        let period = i128::from(self.timeline.models[0].period());
        let now = i128::from(self.now.as_micros());
        let then = match timing {
            Timing::AtOnce => now,
            Timing::Announced { which, after } => {
                let after = |instant: &Timestamp| i128::from(instant.as_micros()) + i128::from(after);
                let mut to_come: Vec<i128> =
                    self.announced.iter().map(after).filter(|then| *then >= now).collect();
                to_come.sort_unstable();
                to_come.get(which % to_come.len().max(1)).copied().unwrap_or(now)
            }
            Timing::Later(thousandths) => now + period * i128::from(thousandths) / 1_000,
            Timing::Step(micros) => now + i128::from(micros),
            Timing::StepByQuarters(quarters, micros) => {
                now + period * i128::from(quarters) / 4 + i128::from(micros)
            }
        };
        Timestamp::from_micros(u64::try_from(then.max(0)).unwrap_or(u64::MAX))
    }

    fn announce(&mut self, decision: &Decision) {
        let retry = match decision.retry() {
            Some(Retry::After(wait)) => wait,
            _ => Duration::ZERO,
        };
        for wait in [decision.reset_after(), decision.next_after(), retry, decision.delay()] {
            let instant = decision.at().saturating_add(wait);
            if !wait.is_zero() && !self.announced.contains(&instant) {
                self.announced.push_back(instant);
            }
        }
        while self.announced.len() > ANNOUNCEMENTS_HELD {
            self.announced.pop_front();
        }
    }

    /// Removes and returns the receipts of one charge, counted from the newest.
    fn receipt(&mut self, which: usize, with_current_quota: bool) -> Option<(Receipt, Receipt)> {
        let oldest = self.receipts.len().checked_sub(1)?;
        let (one, other) = self.receipts.remove(oldest - which % self.receipts.len())?;
        if !with_current_quota {
            return Some((one, other));
        }
        let current = |receipt: Receipt| self.policies.iter().fold(receipt, Receipt::with_policy);
        Some((current(one), current(other)))
    }

    /// Joins receipts. The result becomes the newest.
    fn join(&mut self, which: usize, most: usize) {
        let Some((mut one, mut other)) = self.receipt(which, false) else { return };
        let (mut kept, mut joined) = (VecDeque::new(), 0);
        while let Some((next, other_next)) = self.receipts.pop_back() {
            if joined == most {
                kept.push_front((next, other_next));
                continue;
            }
            match (one.absorb(next), other.absorb(other_next)) {
                (None, None) => joined += 1,
                (Some(next), Some(other_next)) => kept.push_front((next, other_next)),
                _ => unreachable!("equal receipts have the same key and policy"),
            }
        }
        kept.push_back((one, other));
        self.receipts = kept;
    }

    fn key(&self, index: usize) -> Key {
        key(&self.namespace, &self.generation.to_string(), &index.to_string())
    }
}

fn describe(checks: &Checks) -> String {
    let asked = checks.iter().map(|check| {
        format!("{} units of {} of {:?}", check.cost, check.policy.name(), check.policy.strategy())
    });
    format!("a check of {}", asked.collect::<Vec<_>>().join(", and "))
}

fn describe_receipt(receipt: &Receipt) -> String {
    format!("{} units of {}: {:?}", receipt.cost(), receipt.policy().name(), receipt.runs())
}

/// 2^52 microseconds after the epoch, in the year 2112. The distance to the last timestamp exceeds twice any time to full.
const HORIZON: Timestamp = Timestamp::from_micros(1 << 52);
/// The range of start instants in microseconds: from 1970, and early enough to leave time before [`HORIZON`].
pub(super) const EARLIEST_START: u64 = 0;
pub(super) const LATEST_START: u64 = 1 << 51;
const ANNOUNCEMENTS_HELD: usize = 24;
pub(super) const RECEIPTS_HELD: usize = 200;
