//! Checks that a charge makes after its admission, for messages of a stream.

use std::sync::Arc;

use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Receipt, StoreError};
use smallvec::SmallVec;

use super::{Charge, ChargedCheck};
use crate::config::LayerConfig;
use portcullis_engine::is_in_flight;
use portcullis_engine::report;

impl Charge {
    pub(crate) fn config(&self) -> &Arc<LayerConfig> {
        &self.shared.config
    }

    /// The checks of the admission, including those that the store could not answer, without those of requests in flight. None if the
    /// store could not answer at all and a layer has let the request through.
    pub(crate) fn checks(&self) -> impl Iterator<Item = ChargedCheck<'_>> {
        let only = self.only;
        let checks = self.shared.charged().checks().enumerate();
        let checks = checks.filter(move |(index, _)| only.is_none_or(|only| only == *index));
        checks.map(|(_, check)| check).filter(|check| !is_in_flight(check.policy))
    }

    /// Records a later charge, so that it is refunded and settled with the others. A policy whose charge is settled already keeps no
    /// more receipts: the units stay charged.
    pub(crate) fn record(&self, outcome: Outcome) {
        self.shared.ledger().add_each(self.shared.charged(), outcome);
    }

    /// Charges `units` under each policy before they are used. `None` if a policy denies or queues, or the store cannot answer.
    pub(crate) async fn charge_ahead(&self, units: u64) -> Option<Outcome> {
        let limits = &self.shared.config.limits;
        // A failure is emitted by the check that follows.
        let checks = self.checks_of(units)?;
        if checks.iter().any(|check| check.policy.strategy().queues()) {
            return None;
        }
        let outcome = limits.check(checks).await.ok()?;
        report::answered(limits, Ok(&outcome));
        report::charged_more(limits, &outcome, units);
        outcome.is_allowed().then_some(outcome)
    }

    /// The checks for `units` under the policies as they are now.
    fn checks_of(&self, units: u64) -> Option<Checks> {
        let charged: SmallVec<[ChargedCheck<'_>; 2]> = self.checks().collect();
        let checks = ChargedCheck::again(&charged, units)?;
        Some(self.shared.config.limits.checks_as_of_now(&checks))
    }

    /// Refunds `unused` of the units that were [charged ahead](Self::charge_ahead), and records the others.
    ///
    /// # Errors
    ///
    /// If the store cannot answer for a policy. It is asked about the others all the same.
    pub(crate) async fn return_unused(&self, ahead: Outcome, unused: u64) -> Result<(), StoreError> {
        let limits = &self.shared.config.limits;
        let mut result = Ok(());
        for receipt in ahead.into_receipts() {
            let (key, before) = (receipt.key(), receipt.cost());
            let used = before.saturating_sub(unused);
            match limits.settle(receipt, used).await {
                Ok(settlement) => {
                    report::settled(limits, key, before, used, &settlement);
                    let charged = settlement.receipt.filter(|receipt: &Receipt| receipt.cost() > 0);
                    self.shared.ledger().add(self.shared.charged(), charged, settlement.decision);
                }
                Err(error) => result = Err(error),
            }
        }
        result
    }
}
