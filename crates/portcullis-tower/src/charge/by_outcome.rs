//! Corrects a charge by the outcome of its request.

use portcullis_core::{PolicyName, StoreError};

use super::Charge;

/// How the outcome of a request changes its charge under one policy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutcomeCorrection {
    /// These units, charged at the admission, are refunded.
    Refund(u64),
    /// These units are charged, whether they fit or not.
    Charge(u64),
}

impl Charge {
    /// The index and the cost of the policy at the admission, if it has counted the request.
    pub(crate) fn metered(&self, policy: &PolicyName) -> Option<(usize, u64)> {
        let index = self.at_admission().iter().position(|decision| decision.policy() == policy)?;
        Some((index, self.shared.charged().check(index)?.cost))
    }

    /// Settles the charge under the policy at `index`, once. Nothing happens if a handler has settled it.
    pub(crate) async fn correct(&self, index: usize, by: OutcomeCorrection) -> Result<(), StoreError> {
        let (ledger, basis) = (self.shared.ledger(), self.shared.charged());
        for correction in ledger.close(basis, Some(index)).unwrap_or_default() {
            let charged = correction.charged();
            let cost = match by {
                OutcomeCorrection::Refund(units) => charged.saturating_sub(units),
                OutcomeCorrection::Charge(units) => charged.saturating_add(units),
            };
            self.apply(correction.keeping_slots(), cost).await?;
        }
        Ok(())
    }
}
