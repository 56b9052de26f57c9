//! Decisions by definition.

use std::collections::HashMap;
use std::future::ready;
use std::time::Duration;

use portcullis_core::{
    Check, CheckResult, Checks, Decision, Key, Outcome, Policy, PolicyName, Receipt, Run, Settlement,
    Snapshot, StoreError, StoreErrorKind, Timestamp,
};

use super::Model;
use super::ledger::{self, Ledger};
use crate::subject::{Answer, Checked, SystemUnderTest, decisive};

/// Decides from what was charged and when, by definition: what `portcullis-core` has to equal.
///
/// For time that does not go backwards and quotas that do not change.
///
/// # Panics
///
/// Where time goes backwards.
///
/// ```
/// use portcullis_core::{Checks, Policy, PolicyName, Quota, Secret, Timestamp};
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
    /// Nobody has come yet. Policies are told apart by their names, and what they mean is what `models` says.
    pub fn new(models: impl IntoIterator<Item = (PolicyName, Model)>) -> Self {
        Self { models: models.into_iter().collect(), ledgers: HashMap::new() }
    }

    fn decide(&mut self, now: Timestamp, checks: Checks) -> Result<Checked, StoreError> {
        let mut admitted = Vec::with_capacity(checks.len());
        for check in &checks {
            admitted.push(ledger::fits(self.ledger(&check.policy, check.key)?, now, check.cost));
        }
        let all = admitted.iter().all(|admitted| *admitted);
        let (mut reports, mut positions) = (Vec::with_capacity(checks.len()), Vec::new());
        for (check, admitted) in checks.iter().zip(&admitted) {
            let ledger = self.ledger(&check.policy, check.key)?;
            let mut delay = Duration::ZERO;
            if all && check.cost > 0 {
                delay = ledger.delay(now.as_micros());
                ledger.charge(now.as_micros(), check.cost);
            }
            reports.push(Snapshot { delay, ..ledger::snapshot(ledger, now, check.cost, *admitted) });
            positions.push(ledger.position(now.as_micros()));
        }
        let decision = |(check, snapshot): (&Check, &Snapshot)| Decision::new(&check.policy, now, *snapshot);
        let decisions: Vec<Decision> = checks.iter().zip(&reports).map(decision).collect();
        let counts = decisive(&decisions).ok_or_else(|| failed("nothing was asked"))?;
        let index = decisions.iter().position(|decision| decision == counts).expect("it is one of them");
        // Who has to wait under several policies waits for the last of them.
        reports[index].delay = reports.iter().map(|snapshot| snapshot.delay).max().unwrap_or_default();
        let decisions: Vec<Decision> = checks.iter().zip(&reports).map(decision).collect();
        let decision = decisions[index].clone();
        // Only core makes receipts.
        let standings: Vec<CheckResult> = admitted
            .into_iter()
            .zip(reports)
            .zip(positions)
            .map(|((admitted, snapshot), position)| CheckResult { admitted, snapshot, position })
            .collect();
        let outcome = Outcome::new(checks, now, standings).ok_or_else(|| failed("standings are missing"))?;
        Ok(Checked { decision, decisions, receipts: outcome.into_receipts().collect() })
    }

    fn settled(&mut self, now: Timestamp, receipt: Receipt, cost: u32) -> Result<Settlement, StoreError> {
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
        Ok(&mut **ledger.or_insert_with(|| ledger::blank(model)))
    }
}

impl SystemUnderTest for Reference {
    fn check(&mut self, now: Timestamp, checks: Checks) -> Answer<'_, Checked> {
        Box::pin(ready(self.decide(now, checks)))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> Answer<'_, Decision> {
        Box::pin(ready(self.settled(now, receipt, 0).map(|settlement| settlement.decision)))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u32) -> Answer<'_, Settlement> {
        Box::pin(ready(self.settled(now, receipt, cost)))
    }

    fn reset<'a>(&'a mut self, _: Timestamp, policy: &'a Policy, key: Key) -> Answer<'a, ()> {
        self.ledgers.remove(&(policy.name().clone(), key));
        Box::pin(ready(Ok(())))
    }
}

fn failed(why: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Failed, why)
}
