//! Ways to a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use portcullis_core::store::{Checks, Outcome, ReadyCheck, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, StoreError, StoreErrorKind};

/// The way to a store, which can be cut off, as that of an instance to the Redis that the instances share. It has the calls that scenes make:
/// the others would be a twentieth of what a page downloads.
pub(super) struct Reach<S> {
    store: Arc<S>,
    is_cut: Arc<AtomicBool>,
}

impl<S: Store> Reach<S> {
    pub(super) fn new(store: Arc<S>, is_cut: Arc<AtomicBool>) -> Self {
        Self { store, is_cut }
    }

    /// The way to a store of the instance itself, which is never cut off.
    pub(super) fn within(store: Arc<S>) -> Self {
        Self::new(store, Arc::default())
    }

    fn reach<T>(&self, call: impl FnOnce(&S) -> StoreFuture<T>) -> StoreFuture<T> {
        if self.is_cut.load(Relaxed) { StoreFuture::ready(Err(cut_off())) } else { call(&self.store) }
    }
}

impl<S: Store> Store for Reach<S> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.reach(|store| store.check(checks))
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        if self.is_cut.load(Relaxed) { Some(Err(cut_off())) } else { self.store.check_now(policy, key, cost) }
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.reach(|store| store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.reach(|store| store.settle(receipt, cost))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.reach(|store| store.reset(policy, key))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.store.register(policy)
    }
}

fn cut_off() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the server cannot be reached")
}
