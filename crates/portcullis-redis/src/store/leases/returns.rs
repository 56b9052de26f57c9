//! Refunds of what is left of leases.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_core::lease::{KeyLease, Returned};
use portcullis_core::store::Check;
use portcullis_core::{Decision, Key, Policy, Receipt};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::shard::Entry;
use super::{Leases, Return};
use crate::lock::lock;
use crate::store::{Inner, RedisStore};

impl RedisStore {
    /// Ends the [leases](Policy::lease) of this process and refunds what is left of them, for a process that is about to stop. Waits
    /// for refunds of expired leases that are on their way.
    ///
    /// Without it the units are refunded when the last clone of the store is dropped, if its runtime runs long enough for that. If a
    /// refund fails, its units stay charged. Requests that are made meanwhile may begin new leases.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, the refunds that it has begun continue.
    pub async fn return_leases(&self) {
        let store = self.clone();
        let refunds = async move { store.refund_rest(|lease, _| lease.take()).await };
        let refunds = self.0.connection.runtime().spawn(refunds);
        // It fails only if the runtime ends.
        drop(refunds.await);
    }

    /// Refunds units to the lease that they were spent from, and forgets that the key was denied.
    pub(in crate::store) fn refund_to_lease(
        &self,
        receipt: &Receipt,
        cost: u64,
    ) -> Option<(Decision, Receipt)> {
        let refunded = self.0.leases.refund(receipt, cost)?;
        self.0.denials.correct(receipt.policy(), receipt.key()).answered();
        Some(refunded)
    }

    /// Starts the task that refunds the rest of leases, if there are leases and it does not run yet.
    pub(super) fn start_returns(&self) {
        let leases = &self.0.leases;
        // The task looks for work once more after it has reset the flag, so a running one suffices.
        if leases.is_returning.load(SeqCst) || !leases.has_work() {
            return;
        }
        if !leases.is_returning.swap(true, SeqCst) {
            self.0.connection.runtime().spawn(return_expired(ReturnsTask(Arc::downgrade(&self.0))));
        }
    }

    /// Refunds what is left of the leases that `end` ends, after refunds that are on their way.
    async fn refund_rest(&self, end: fn(&mut KeyLease, Duration) -> Option<Returned>) {
        let leases = &self.0.leases;
        let _turn = leases.refunding.lock().await;
        let now = leases.now();
        let returns = leases.take(|lease| end(lease, now));
        self.refund_returns(returns).await;
    }

    /// Has to run to its end, because units count as in lease until their refund has ended.
    async fn refund_returns(&self, returns: Vec<Return>) {
        let mut refunds = JoinSet::new();
        for Return { receipt, leased } in returns {
            if refunds.len() >= MAX_AT_ONCE {
                refunds.join_next().await;
            }
            let store = self.clone();
            refunds.spawn(async move {
                store.refund_charge(&receipt).await;
                store.0.leases.returned(receipt.policy(), receipt.key(), leased);
            });
        }
        refunds.join_all().await;
    }

    /// Refunds a charge of which no request makes use. If it fails, the units stay charged.
    pub(super) async fn refund_charge(&self, receipt: &Receipt) {
        let check = Check { policy: receipt.policy().clone(), key: receipt.key(), cost: 0 };
        drop(self.0.refund_unused(&check, receipt.refund_to(0)).await);
    }
}

/// Refunds the rest of expired leases, as long as there are leases.
async fn return_expired(task: ReturnsTask) {
    loop {
        sleep(INTERVAL).await;
        let Some(inner) = task.0.upgrade() else { return };
        let store = RedisStore(inner);
        store.refund_rest(KeyLease::take_expired).await;
        // In this order, so that a lease that begins meanwhile starts the task again.
        store.0.leases.is_returning.store(false, SeqCst);
        if !store.0.leases.has_work() || store.0.leases.is_returning.swap(true, SeqCst) {
            // Another task may have the flag by now.
            task.end();
            return;
        }
    }
}

/// The task of a store that refunds the rest of leases. Dropped before its end, because its runtime has ended, it lets another one start.
struct ReturnsTask(Weak<Inner>);

impl ReturnsTask {
    fn end(mut self) {
        self.0 = Weak::new();
    }
}

impl Drop for ReturnsTask {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.leases.is_returning.store(false, SeqCst);
        }
    }
}

impl Leases {
    /// Ends the leases for which `end` returns what is left, and takes everything that has to be refunded.
    fn take(&self, end: impl Fn(&mut KeyLease) -> Option<Returned>) -> Vec<Return> {
        let mut returns = std::mem::take(&mut *lock(&self.returns));
        for slot in &self.shards {
            let mut shard = lock(&slot.keys);
            for Entry { policy, key, lease, .. } in shard.entries() {
                if let Some(rest) = end(lease) {
                    let leased = rest.units();
                    returns.push(Return { receipt: rest.into_receipt(policy.clone(), *key), leased });
                }
            }
        }
        returns
    }

    /// Records that a refund has ended.
    pub(super) fn returned(&self, policy: &Policy, key: Key, leased: u64) {
        if leased > 0 {
            self.change(policy, key, |entry| entry.lease.returned(leased));
        }
    }

    /// Whether there is anything to refund, apart from leases.
    pub(super) fn has_returns(&self) -> bool {
        !lock(&self.returns).is_empty()
    }

    /// Whether there is a lease, or anything to refund.
    fn has_work(&self) -> bool {
        if self.has_returns() {
            return true;
        }
        self.shards.iter().any(|slot| lock(&slot.keys).entries().any(|entry| entry.lease.until().is_some()))
    }
}

impl Drop for Inner {
    /// Refunds what is left of leases, by a store of its own on the same connection.
    fn drop(&mut self) {
        let returns = self.leases.take(KeyLease::take);
        if returns.is_empty() {
            return;
        }
        let runtime = self.connection.runtime();
        let inner = Self::new(self.connection.clone(), self.layout.clone(), 0, Leases::new(false), None);
        let store = RedisStore::from_inner(inner);
        runtime.spawn(async move { store.refund_returns(returns).await });
    }
}

/// How often the rest of expired leases is refunded.
const INTERVAL: Duration = Duration::from_millis(100);
/// The most refunds at a time.
const MAX_AT_ONCE: usize = 32;
