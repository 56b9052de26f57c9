//! Gives hits back to the window of now.

use portcullis::event::EventKind;
use portcullis::store::{CheckResult, Checks, Outcome};
use portcullis::{Decision, StoreError};

use super::{Decider, Item};

impl Decider<'_> {
    /// Refunds hits of the window of now, without a receipt: the store is asked for its time, of which the window follows.
    pub(super) async fn put_back(&self, item: &Item) -> Result<Decision, StoreError> {
        let checks = Checks::one(item.policy.clone(), item.key, 0);
        let Some(outcome) = self.ask(checks).await? else {
            return Ok(Decision::degraded(&item.policy, portcullis::Timestamp::EPOCH));
        };
        let (at, fallback) = (outcome.decision().at(), outcome.fallback_id());
        let strategy = item.policy.strategy();
        let hits = item.hits.min(strategy.limit());
        let mut state = None;
        strategy.charge(&mut state, at, hits);
        let charged = CheckResult {
            admitted: true,
            snapshot: strategy.snapshot(state.as_ref(), at, hits, true),
            position: strategy.position(state.as_ref(), at),
        };
        let checks = Checks::one(item.policy.clone(), item.key, hits);
        let charged = Outcome::new(checks, at, [charged]);
        let receipt = charged.and_then(|charged| charged.into_receipts().next());
        match receipt {
            Some(receipt) => {
                let decision = self.limiter.refund(receipt.charged_by(fallback)).await?;
                if hits > 0 {
                    self.emit_of(item, EventKind::Refunded { decision: &decision, units: hits });
                }
                Ok(decision)
            }
            None => Ok(outcome.into_decision()),
        }
    }
}
