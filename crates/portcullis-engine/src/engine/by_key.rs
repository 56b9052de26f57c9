//! Charges, refunds and peeks by key, without a request or a receipt.

use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Decision, Key, Policy, Receipt, Timestamp};

use super::{Limits, report};
use crate::Reason;
use crate::event::{EventKeys, EventKind};

impl Limits {
    /// Charges a key what fits of these units, such as those of a request that is denied although they are used. If the store cannot
    /// answer, that is emitted.
    pub async fn use_up(&self, policy: &Policy, key: Key, units: u64) {
        match self.settle(Receipt::blank(policy.clone(), key, Timestamp::EPOCH), units).await {
            Ok(settlement) => report::used_up(self, key, units, &settlement),
            Err(error) => self.emit_store_state(Some(&error)),
        }
    }

    /// Refunds a key these units of the window of now, as far as they are charged. The store is asked for its time first, of which the
    /// window follows. `None` if it cannot answer, which is emitted.
    pub async fn put_back(&self, policy: &Policy, key: Key, units: u64) -> Option<Decision> {
        let peeked = self.peek(Some(Checks::one(policy.clone(), key, 0))).await?;
        let (at, fallback) = (peeked.decision().at(), peeked.fallback_id());
        let units = units.min(policy.strategy().limit());
        if units == 0 {
            return Some(peeked.into_decision());
        }
        let receipt = Receipt::of_window(policy.clone(), key, units, at);
        let refunded = self.refund(receipt.charged_by(fallback)).await;
        report::refunded(self, key, units, &refunded);
        refunded.ok()
    }

    /// What is left under these checks, which charge nothing. `None` if there are none, or if the store cannot answer, which is
    /// emitted.
    pub async fn peek(&self, checks: Option<Checks>) -> Option<Outcome> {
        let answer = self.check(checks?).await;
        report::answered(self, answer.as_ref());
        answer.ok()
    }

    /// Peeks at these checks, and emits that a request is rejected which none of them denies.
    pub async fn reject_beside(&self, checks: Option<Checks>) -> Option<Outcome> {
        let peeked = self.peek(checks.clone()).await;
        let decisions = peeked.as_ref().map(Outcome::decisions).unwrap_or_default();
        let rejected = EventKind::Rejected { reason: Reason::Limited, decisions };
        // By no policy of these.
        let keys = || checks.as_ref().map_or(EventKeys::None, EventKeys::of_checks);
        self.with_policies(Vec::new()).emit(rejected, keys);
        peeked
    }
}
