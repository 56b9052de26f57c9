//! A store whose clock a test sets.

use std::fmt;
use std::sync::Arc;

use portcullis_core::store::{Checks, Store};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, Timestamp};

use super::{Checked, SubjectFuture, SystemUnderTest};
use crate::ManualClock;

/// A [`Store`] that takes its time from a [`ManualClock`].
///
/// The store must have been created with a clone of `clock`, which is set before each call.
///
/// Where time goes backwards, two stores agree only if neither drops expired states in between: an expired state counts
/// again when the clock is set back, unless it was swept.
#[derive(Clone)]
pub struct StoreSubject {
    store: Arc<dyn Store>,
    clock: ManualClock,
}

impl StoreSubject {
    /// Creates a subject from a `store` and the `clock` that it was created with.
    pub fn new(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        Self { store, clock }
    }
}

impl fmt::Debug for StoreSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSubject").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl SystemUnderTest for StoreSubject {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        self.clock.set(now);
        let answer = self.store.check(checks);
        Box::pin(async { answer.await.map(Checked::from) })
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision> {
        self.clock.set(now);
        Box::pin(self.store.refund(receipt))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement> {
        self.clock.set(now);
        Box::pin(self.store.settle(receipt, cost))
    }

    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        self.clock.set(now);
        Box::pin(self.store.reset(policy, key))
    }
}
