//! The queue in which a request was charged a slot.

use std::time::Duration;

use tokio::time::Instant;

use super::Attempt;
use crate::PolicySet;
use crate::decide::Rejected;
use crate::decide::later::late;
use crate::decide::later::slot::Slot;
use crate::decide::rejected::reject;

impl Attempt {
    /// Enters the queue in which the request was charged a slot.
    pub(super) async fn join(&mut self, at: Instant) -> Result<Slot, Rejected> {
        let charged = self.charged.take().expect("a slot was charged");
        let waited = self.waits_since.map_or(Duration::ZERO, |since| since.elapsed());
        if let Some(denied) = self.max_wait.and_then(|max_wait| late::denial(max_wait, waited, &charged)) {
            let policies = self.limits.policies().iter().enumerate();
            let is_checked = |name| denied.decisions().iter().any(|decision| decision.policy() == name);
            let checked =
                policies.filter(|(_, limit)| is_checked(limit.policy.name())).map(|(index, _)| index);
            let rejected = Rejected::Late { checked: PolicySet::of(checked), outcome: denied };
            let rejected = reject(&self.limits, rejected, self.keys());
            self.charged = Some(charged);
            return Err(self.refunded(rejected).await);
        }
        if !self.wait_as(charged.checks().narrowest_key()) {
            self.charged = Some(charged);
            return Err(self.reject_overloaded().await);
        }
        Ok(Slot::join(&self.limits, charged, at))
    }
}
