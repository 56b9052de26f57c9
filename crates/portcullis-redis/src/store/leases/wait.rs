//! Requests that wait for a lease that another request is asking for: no more than the lease will pay for, each for one call, which was sent
//! before it came. Then it is paid from the lease or has a call of its own.

use std::pin::pin;
use std::sync::Arc;

use portcullis_core::store::{Check, Checks, Outcome, Standby};
use portcullis_core::{StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout_at};

use super::{CallWait, Leases, Payment, Payments};
use crate::protocol::keys;
use crate::store::{RedisStore, with_outage};
use crate::transport::Transport as _;

impl RedisStore {
    /// Decides a single check once the call with the number `call` is answered, from the lease that it has charged or by the
    /// store, within one deadline, or two while it is open whether there is an outage.
    ///
    /// # Cancel safety
    /// While it waits, nothing is charged.
    pub(super) async fn decide_after_answer(
        self,
        checks: Checks,
        call: u64,
        standby: Option<Arc<dyn Standby>>,
    ) -> Result<Outcome, StoreError> {
        let (start, deadline) = (Instant::now(), self.0.connection.deadline());
        let end = start + deadline;
        // The call that it waits for, and its own, wait beyond their deadline to find out whether there is an outage.
        let latest = end + deadline;
        let check = checks.iter().next().expect("a decision has a check");
        let Some(payment) = self.0.leases.after_answer(check, call, latest).await else {
            return self.decide_late(standby.as_deref(), checks, (start, false));
        };
        // The key may have been denied meanwhile.
        if matches!(payment, Payment::Ask(0))
            && let Some(denied) = self.0.denials.find(&checks)
        {
            return Ok(denied);
        }
        let payments = Payments::from_iter([payment]);
        // The call gets what is left of the deadline, so that it is not sent with less time than replies take.
        let decided = self.start_leased(checks.clone(), payments, standby.clone(), Some(end));
        let answer = timeout_at(latest, decided).await;
        answer.unwrap_or_else(|_| self.decide_late(standby.as_deref(), checks, (start, true)))
    }

    /// The result of a decision that another call has delayed: an outage only if no call was answered since the `start`.
    pub(super) fn decide_late(
        &self,
        standby: Option<&dyn Standby>,
        checks: Checks,
        (start, was_sent): (Instant, bool),
    ) -> Result<Outcome, StoreError> {
        let slot = checks.iter().next().map(|check| keys::slot(check.key));
        let outage = self.0.connection.availability(slot).outage;
        let is_out = outage.is_some() && !self.0.connection.replied_since(slot, start);
        let kind = match (is_out, was_sent) {
            (true, true) => StoreErrorKind::TimedOut,
            (true, false) => StoreErrorKind::Unavailable,
            (false, true) => StoreErrorKind::Overtaken,
            (false, false) => StoreErrorKind::Overloaded,
        };
        let late = "redis gave no reply before the end of a decision that waited for a lease";
        self.0.connection.stats().count_error(kind);
        let error = with_outage(StoreError::new(kind, late), outage);
        self.0.decide_without_store(standby, checks, error)
    }
}

impl Leases {
    /// Waits until a check is paid from a lease or has to be made by the store; `None` if neither is known by `end`.
    async fn after_answer(&self, check: &Check, call: u64, end: Instant) -> Option<Payment> {
        let (slot, _) = self.slot(&check.policy, check.key);
        let Ok(_place) = slot.places.try_acquire() else { return Some(Payment::Ask(0)) };
        loop {
            // Registered before the lease is looked at, so that no answer is missed.
            let mut answered = pin!(slot.answered.notified());
            answered.as_mut().enable();
            let payment = self.pay_one(check, self.now(), CallWait::For(call));
            if !matches!(payment, Payment::Wait(_)) {
                return Some(payment);
            }
            timeout_at(end, answered).await.ok()?;
        }
    }
}

/// The most requests that wait for leases of the keys of one slot. Beyond it they are sent, and bounded like all others.
pub(super) const MAX_WAITING: usize = 1_024;
