//! A store that keeps no blocks, and can fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Secret, Settlement, StoreError, StoreErrorKind};
use portcullis_memory::MemoryStore;
use portcullis_tower::Registry;

#[derive(Default)]
pub(crate) struct PlainStore {
    inner: MemoryStore,
    is_down: AtomicBool,
}

impl PlainStore {
    pub(crate) fn registry(self: &Arc<Self>) -> Arc<Registry> {
        Arc::new(Registry::new(Arc::clone(self) as Arc<dyn Store>, Secret::published()))
    }

    /// From now on no check is answered.
    pub(crate) fn fail(&self) {
        self.is_down.store(true, Relaxed);
    }
}

impl Store for PlainStore {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        if self.is_down.load(Relaxed) {
            let error = StoreError::new(StoreErrorKind::Unavailable, "the store is down");
            return StoreFuture::ready(Err(error));
        }
        self.inner.check(checks)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.inner.refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.inner.settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.inner.reset(policy, key)
    }
}
