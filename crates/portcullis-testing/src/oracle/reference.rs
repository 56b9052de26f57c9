//! Decisions by definition.

use std::collections::HashMap;
use std::future::ready;

use portcullis_core::{
    Checks, Decision, Key, Outcome, Policy, PolicyName, Receipt, Settlement, Standing, StoreError,
    StoreErrorKind, Timestamp,
};

use super::Model;
use super::ledger::Ledger;
use crate::subject::{Answer, Checked, Subject, that_counts};

/// Decides from the log of everything that was charged, by definition: what `portcullis-core` has to equal.
///
/// For time that does not go backwards and quotas that do not change.
///
/// # Panics
///
/// Where time goes backwards.
///
/// ```
/// use portcullis_core::{Checks, Policy, PolicyName, Quota, Secret, Timestamp};
/// use portcullis_testing::Subject;
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
#[derive(Clone, Debug)]
pub struct Reference {
    models: HashMap<PolicyName, Model>,
    ledgers: HashMap<(PolicyName, Key), Ledger>,
}

impl Reference {
    /// Nobody has come yet. Policies are told apart by their names, and what they mean is what `models` says.
    pub fn new(models: impl IntoIterator<Item = (PolicyName, Model)>) -> Self {
        Self { models: models.into_iter().collect(), ledgers: HashMap::new() }
    }

    fn decide(&mut self, now: Timestamp, checks: Checks) -> Result<Checked, StoreError> {
        let mut admitted = Vec::with_capacity(checks.len());
        for check in &checks {
            admitted.push(self.ledger(&check.policy, check.key)?.fits(now, check.cost));
        }
        let all = admitted.iter().all(|admitted| *admitted);
        let mut decisions = Vec::with_capacity(checks.len());
        for (check, admitted) in checks.iter().zip(&admitted) {
            let ledger = self.ledger(&check.policy, check.key)?;
            if all && check.cost > 0 {
                ledger.charge(now, check.cost);
            }
            decisions.push(Decision::new(&check.policy, now, ledger.report(now, check.cost, *admitted)));
        }
        let decision = that_counts(&decisions).cloned().ok_or_else(|| failed("nothing was asked"))?;
        // Only core makes receipts. The states are none of its business.
        let standings: Vec<_> = checks
            .iter()
            .zip(admitted)
            .map(|(check, admitted)| Standing::of(check.policy.strategy(), None, now, check.cost, admitted))
            .collect();
        let outcome = Outcome::new(checks, now, standings).ok_or_else(|| failed("standings are missing"))?;
        Ok(Checked { decision, decisions, receipts: outcome.into_receipts().collect() })
    }

    fn settled(&mut self, now: Timestamp, receipt: &Receipt, cost: u32) -> Result<Settlement, StoreError> {
        let ledger = self.ledger(receipt.policy(), receipt.key())?;
        let uncharged = if cost <= receipt.cost() {
            ledger.refund(now, receipt.at(), receipt.cost() - cost);
            0
        } else {
            ledger.force(now, cost - receipt.cost())
        };
        let decision = Decision::new(receipt.policy(), now, ledger.report(now, 0, true));
        Ok(Settlement { decision, uncharged })
    }

    fn ledger(&mut self, policy: &Policy, key: Key) -> Result<&mut Ledger, StoreError> {
        let model = *self.models.get(policy.name()).ok_or_else(|| failed("the policy has no model"))?;
        Ok(self.ledgers.entry((policy.name().clone(), key)).or_insert_with(|| Ledger::new(model)))
    }
}

impl Subject for Reference {
    fn check(&mut self, now: Timestamp, checks: Checks) -> Answer<'_, Checked> {
        Box::pin(ready(self.decide(now, checks)))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> Answer<'_, Decision> {
        Box::pin(ready(self.settled(now, &receipt, 0).map(|settlement| settlement.decision)))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u32) -> Answer<'_, Settlement> {
        Box::pin(ready(self.settled(now, &receipt, cost)))
    }

    fn reset<'a>(&'a mut self, _: Timestamp, policy: &'a Policy, key: Key) -> Answer<'a, ()> {
        self.ledgers.remove(&(policy.name().clone(), key));
        Box::pin(ready(Ok(())))
    }
}

fn failed(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Failed, why)
}
