//! Requests that wait for a lease that another request is asking for.
//!
//! Without that, all requests that arrive while a lease is being charged would make a call each. A request that waits takes no
//! longer than with a call of its own, because the other call was sent before.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use portcullis_core::StoreError;
use portcullis_core::store::{Check, Checks, Outcome, Standby};
use tokio::time::{Instant, timeout_at};

use super::trip::decide_late;
use super::{Leases, Part, Parts};
use crate::store::RedisStore;
use crate::transport::Transport as _;

/// A request that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl RedisStore {
    /// Decides a single check once the lease that it waits for is there, within one deadline.
    ///
    /// # Cancel safety
    /// While it waits, nothing is charged.
    pub(super) async fn decide_after_answer(
        self,
        checks: Checks,
        standby: Option<Arc<dyn Standby>>,
    ) -> Result<Outcome, StoreError> {
        let end = Instant::now() + self.0.connection.deadline();
        let check = checks.iter().next().expect("a decision has a check");
        let Some(part) = self.0.leases.after_answer(check, end).await else {
            return decide_late(standby.as_deref(), checks);
        };
        // The key may have been denied meanwhile.
        if matches!(part, Part::Ask(0))
            && let Some(denied) = self.0.denials.find(&checks)
        {
            return Ok(denied);
        }
        let parts = Parts::from_iter([part]);
        let answer = timeout_at(end, self.start_leased(checks.clone(), parts, standby.clone())).await;
        answer.unwrap_or_else(|_| decide_late(standby.as_deref(), checks))
    }
}

impl Leases {
    /// Waits until a check is paid from a lease or has to be made by the store; `None` if neither is known by `end`.
    async fn after_answer(&self, check: &Check, end: Instant) -> Option<Part> {
        let (slot, _) = self.slot(&check.policy, check.key);
        let Some(_waiting) = Waiting::begin(&slot.waiting) else { return Some(Part::Ask(0)) };
        loop {
            // Registered before the lease is looked at, so that no answer is missed.
            let mut answered = pin!(slot.answered.notified());
            answered.as_mut().enable();
            let part = self.pay_one(check, self.now(), false);
            if !matches!(part, Part::Wait) {
                return Some(part);
            }
            timeout_at(end, answered).await.ok()?;
        }
    }
}

impl<'a> Waiting<'a> {
    /// Returns `None` if too many requests wait.
    fn begin(waiting: &'a AtomicUsize) -> Option<Self> {
        if waiting.fetch_add(1, Relaxed) < MAX_WAITING {
            return Some(Self(waiting));
        }
        waiting.fetch_sub(1, Relaxed);
        None
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The most requests that wait for leases of the keys of one slot. Beyond it they are sent, and bounded like all others.
const MAX_WAITING: usize = 1_024;
