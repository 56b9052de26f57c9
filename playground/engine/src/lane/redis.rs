//! The Redis that the instances share: a store in memory that can be cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use portcullis_core::store::{Checks, Outcome, ReadyCheck, Store, StoreFuture};
use portcullis_core::{Decision, Key, ManualClock, Policy, Receipt, Settlement, StoreError, StoreErrorKind};
use portcullis_memory::MemoryStore;

/// The way of an instance to the shared states.
pub(super) struct Redis {
    states: Arc<MemoryStore<Arc<ManualClock>>>,
    is_cut: Arc<AtomicBool>,
}

impl Redis {
    pub(super) fn new(states: Arc<MemoryStore<Arc<ManualClock>>>, is_cut: Arc<AtomicBool>) -> Self {
        Self { states, is_cut }
    }

    fn reach<T>(
        &self,
        call: impl FnOnce(&MemoryStore<Arc<ManualClock>>) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        if self.is_cut.load(Relaxed) { StoreFuture::ready(Err(cut_off())) } else { call(&self.states) }
    }
}

impl Store for Redis {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.reach(|states| states.check(checks))
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        if self.is_cut.load(Relaxed) {
            Some(Err(cut_off()))
        } else {
            self.states.check_now(policy, key, cost)
        }
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.reach(|states| states.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.reach(|states| states.settle(receipt, cost))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.reach(|states| states.reset(policy, key))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.states.register(policy)
    }
}

fn cut_off() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the server cannot be reached")
}
