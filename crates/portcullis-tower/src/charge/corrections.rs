//! Corrects a charge when its response is known, or has ended.

use http::Extensions;
use portcullis_core::{Decision, PolicyName, StoreError};

use super::Charge;
use super::usage::{Counter, Usage};
use crate::OnAbort;
use crate::body::BodyEnd;

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

    /// Leaves the counter of the usage in the extensions of a request. `None` if no policy reserves units for it.
    #[inline]
    pub(crate) fn leave_usage(&self, extensions: &mut Extensions) -> Option<Usage> {
        if self.shared.config.reserves { self.count_usage(extensions) } else { None }
    }

    fn count_usage(&self, extensions: &mut Extensions) -> Option<Usage> {
        let policies = self.shared.config.policies();
        let counter = |(index, decision): (usize, &Decision)| {
            let name = decision.policy();
            let reserves = policies.iter().find(|limit| limit.policy.name() == name)?;
            let counter = Counter::new(name.clone(), index, reserves.reservation?);
            #[cfg(feature = "usage")]
            let counter = {
                let units = self.shared.charged().check(index).map_or(0, |check| check.cost);
                counter.reading(reserves.usage.as_ref(), units)
            };
            Some(counter)
        };
        let counters = self.at_admission().iter().enumerate().filter_map(counter).collect();
        let usage = Usage::new(counters, extensions.get::<Usage>().cloned())?;
        extensions.insert(usage.clone());
        Some(usage)
    }

    /// Settles what was reserved, once, to what a response has used that ended so.
    pub(crate) fn settle_to(&self, usage: &Usage, end: BodyEnd) {
        let (ledger, basis) = (self.shared.ledger(), self.shared.charged());
        let limits = &self.shared.config.limits;
        for counter in usage.counters() {
            let used = match (end, counter.on_abort) {
                (BodyEnd::Complete, _) | (_, OnAbort::Used) => counter.units(),
                (_, OnAbort::Nothing) => Some(0),
                _ => None,
            };
            let Some(used) = used else { continue };
            // It is settled already if the handler has done so.
            for correction in ledger.close(basis, Some(counter.index)).into_iter().flatten() {
                for (receipt, cost) in correction.keeping_slots().receipts_to_settle(used) {
                    limits.engine().backlog.settler.settle(limits, receipt, cost);
                }
            }
        }
    }
}
