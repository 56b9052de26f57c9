//! A store around whose decisions a test does something.

use std::sync::Arc;

use portcullis::key::Key;
use portcullis::store::{Checks, Outcome, Standby, Store, StoreFuture};
use portcullis::{Decision, Policy, Receipt, Settlement};

/// Makes the decisions of another store within a function of a test. Charges are corrected, and keys reset, without it.
#[derive(Debug)]
pub struct AroundStore<S, F> {
    store: S,
    around: F,
}

/// Begins the decision of the other store.
pub type Decide<'s> = Box<dyn FnOnce() -> StoreFuture<Outcome> + 's>;

impl<S, F> AroundStore<S, F>
where
    S: Store,
    F: Fn(Decide<'_>) -> StoreFuture<Outcome> + Send + Sync + 'static,
{
    /// Calls a function for each decision.
    pub fn new(store: S, around: F) -> Self {
        Self { store, around }
    }
}

impl<S, F> Store for AroundStore<S, F>
where
    S: Store,
    F: Fn(Decide<'_>) -> StoreFuture<Outcome> + Send + Sync + 'static,
{
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        (self.around)(Box::new(|| self.store.check(checks)))
    }

    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        (self.around)(Box::new(|| self.store.check_with(checks, standby)))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.store.refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.store.settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store.reset(policy, key)
    }
}
