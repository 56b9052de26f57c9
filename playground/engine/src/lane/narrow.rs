//! A store as a scene calls it.

use std::sync::Arc;

use portcullis_core::store::{Checks, Outcome, ReadyCheck, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, StoreError};

/// A store without the calls that no scene makes, which would otherwise be a twentieth of what a page downloads.
pub(super) struct Narrow<S>(pub(super) Arc<S>);

impl<S: Store> Store for Narrow<S> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.0.check(checks)
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        self.0.check_now(policy, key, cost)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.0.refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.0.settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.0.reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.0.register(policy)
    }
}
