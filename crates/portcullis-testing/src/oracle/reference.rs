//! Decisions by definition.

use std::collections::HashMap;
use std::future::ready;
use std::time::Duration;

use portcullis_core::algorithm::Snapshot;
use portcullis_core::store::{Check, CheckResult, Checks, Outcome, Renewal, Renewed, Run};
use portcullis_core::{
    Decision, Key, Policy, PolicyName, Receipt, Settlement, StoreError, StoreErrorKind, Timestamp,
};

use super::entries::Entries;
use super::ledger::{self, Ledger};
use super::level::Level;
use super::permits::Permits;
use super::refills::Refills;
use super::slots::Slots;
use super::windows::Windows;
use super::{Kind, Model};
use crate::subject::{Checked, SubjectFuture, SystemUnderTest, decisive};

/// Decides by definition, from what was charged and when. `portcullis-core` must decide the same.
///
/// Time must not go backwards and quotas must not change.
///
/// # Panics
///
/// If time goes backwards.
///
/// ```
/// use portcullis::store::Checks;
/// use portcullis::{Policy, PolicyName, Quota, Secret, Timestamp};
/// use portcullis_testing::SystemUnderTest;
/// use portcullis_testing::oracle::{Model, Reference};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Model::gcra(Quota::per_second(3));
/// let policy = Policy::new(PolicyName::literal("thirds"), model.strategy()?);
/// let mut reference = Reference::new([(policy.name().clone(), model)]);
///
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let checks = Checks::one(policy, hasher.finish()?, 1);
/// let decision = reference.check(Timestamp::EPOCH, checks).await?.decision;
/// assert_eq!(decision.reset_after().as_micros(), 333_334);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reference {
    models: HashMap<PolicyName, Model>,
    ledgers: HashMap<(PolicyName, Key), Box<dyn Ledger>>,
}

impl Reference {
    /// Creates a reference without charges. `models` gives the model of each policy by its name.
    pub fn new(models: impl IntoIterator<Item = (PolicyName, Model)>) -> Self {
        Self { models: models.into_iter().collect(), ledgers: HashMap::new() }
    }

    fn decide(&mut self, now: Timestamp, checks: Checks) -> Result<Checked, StoreError> {
        let mut admitted = Vec::with_capacity(checks.len());
        for check in &checks {
            admitted.push(ledger::fits(self.ledger(&check.policy, check.key)?, now, check.cost));
        }
        let all = admitted.iter().all(|admitted| *admitted);
        let (mut snapshots, mut positions) = (Vec::with_capacity(checks.len()), Vec::new());
        for (check, admitted) in checks.iter().zip(&admitted) {
            let ledger = self.ledger(&check.policy, check.key)?;
            let mut delay = Duration::ZERO;
            if all && check.cost > 0 {
                delay = ledger.delay(now.as_micros(), check.cost);
                ledger.charge(now.as_micros(), check.cost);
            }
            snapshots.push(Snapshot { delay, ..ledger::snapshot(ledger, now, check.cost, *admitted) });
            positions.push(ledger.position(now.as_micros()));
        }
        let decision = |(check, snapshot): (&Check, &Snapshot)| Decision::new(&check.policy, now, *snapshot);
        let decisions: Vec<Decision> = checks.iter().zip(&snapshots).map(decision).collect();
        let winner = decisive(&decisions).ok_or_else(|| failed("there are no checks"))?;
        let index = decisions
            .iter()
            .position(|decision| decision == winner)
            .expect("the decisive decision is one of them");
        // A request delayed by several policies waits for the longest delay.
        snapshots[index].delay = snapshots.iter().map(|snapshot| snapshot.delay).max().unwrap_or_default();
        let decisions: Vec<Decision> = checks.iter().zip(&snapshots).map(decision).collect();
        let decision = decisions[index].clone();
        // Receipts can be created only by `portcullis-core`.
        let results: Vec<CheckResult> = admitted
            .into_iter()
            .zip(snapshots)
            .zip(positions)
            .map(|((admitted, snapshot), position)| CheckResult { admitted, snapshot, position })
            .collect();
        let outcome =
            Outcome::new(checks, now, results).ok_or_else(|| failed("check results are missing"))?;
        Ok(Checked { decision, decisions, receipts: outcome.into_receipts().collect() })
    }

    fn apply_settlement(
        &mut self,
        now: Timestamp,
        receipt: Receipt,
        cost: u64,
    ) -> Result<Settlement, StoreError> {
        let ledger = self.ledger(receipt.policy(), receipt.key())?;
        let (missing, micros) = (receipt.missing(cost), now.as_micros());
        let (mut uncharged, mut run) = (0, None);
        if missing > 0 {
            let (charged, left_out) = ledger.force(micros, missing);
            (uncharged, run) = (left_out, Some(Run { units: charged, position: ledger.position(micros) }));
        } else {
            ledger.refund(micros, receipt.refund_to(cost));
        }
        let decision = Decision::new(receipt.policy(), now, ledger::snapshot(ledger, now, 0, true));
        Ok(Settlement { decision, uncharged, receipt: Some(receipt.settled(cost, run, now)) })
    }

    fn ledger(&mut self, policy: &Policy, key: Key) -> Result<&mut dyn Ledger, StoreError> {
        let model = *self.models.get(policy.name()).ok_or_else(|| failed("the policy has no model"))?;
        let ledger = self.ledgers.entry((policy.name().clone(), key));
        Ok(&mut **ledger.or_insert_with(|| ledger_for(model)))
    }
}

impl SystemUnderTest for Reference {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        Box::pin(ready(self.decide(now, checks)))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision> {
        Box::pin(ready(self.apply_settlement(now, receipt, 0).map(|settlement| settlement.decision)))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement> {
        Box::pin(ready(self.apply_settlement(now, receipt, cost)))
    }

    fn renew(&mut self, now: Timestamp, renewal: Renewal) -> SubjectFuture<'_, Renewed> {
        let answer = self.ledger(renewal.policy(), renewal.key()).map(|ledger| {
            let held = renewal.runs().iter().map(|run| ledger.renew(now.as_micros(), *run)).sum();
            Renewed { held, lapsed: renewal.units() - held }
        });
        Box::pin(ready(answer))
    }

    fn reset<'a>(&'a mut self, _: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        self.ledgers.remove(&(policy.name().clone(), key));
        Box::pin(ready(Ok(())))
    }
}

/// Creates the ledger of a key that has not been charged.
fn ledger_for(model: Model) -> Box<dyn Ledger> {
    match model.kind {
        Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket => Box::new(Level::new(model)),
        Kind::IntervalTokenBucket => Box::new(Refills::new(model)),
        Kind::FixedWindow(_) | Kind::CalendarWindow(_) => Box::new(Windows::new(model)),
        Kind::SlidingWindow(slots) => Box::new(Slots::new(model, slots)),
        Kind::SlidingLog => Box::new(Entries::new(model)),
        Kind::InFlight => Box::new(Permits::new(model)),
    }
}

fn failed(reason: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Failed, reason)
}
