use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use portcullis_core::{ManualClock, Timestamp};
use portcullis_memory::MemoryStore;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;
use crate::shares::Shares;

mod bound;
mod calls;

/// A store behind a network: each call waits for the test, as a request and as a reply, and goes on if its caller has given up.
#[derive(Clone)]
struct Link {
    store: Arc<MemoryStore<ManualClock>>,
    hops: Arc<Mutex<Vec<oneshot::Sender<bool>>>>,
    /// Whether checks wait as well.
    delays_checks: bool,
    checks: Arc<AtomicU64>,
    refunds: Arc<AtomicU64>,
    drains: Arc<AtomicU64>,
    /// Whether the next refund panics.
    panics: Arc<AtomicBool>,
}

impl Link {
    fn new(clock: &ManualClock, hops: &Arc<Mutex<Vec<oneshot::Sender<bool>>>>, delays_checks: bool) -> Self {
        let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
        let (checks, refunds, drains, panics) = Default::default();
        Self { store, hops: Arc::clone(hops), delays_checks, checks, refunds, drains, panics }
    }

    fn drains(&self) -> u64 {
        self.drains.load(Ordering::SeqCst)
    }

    /// Waits until the test decides. Returns whether the message arrives.
    fn hop(&self) -> impl Future<Output = bool> + use<> {
        let (sender, receiver) = oneshot::channel();
        self.hops.lock().unwrap().push(sender);
        async move { receiver.await.unwrap_or(false) }
    }

    fn travel<T: Unpin + Send + 'static>(
        &self,
        call: impl FnOnce(&Self) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let (link, (sender, receiver)) = (self.clone(), oneshot::channel());
        tokio::spawn(async move {
            let error = |kind| StoreError::new(kind, "the network");
            if !link.hop().await {
                let _ = sender.send(Err(error(StoreErrorKind::Unavailable)));
                return;
            }
            let answer = call(&link).await;
            let answer = if link.hop().await { answer } else { Err(error(StoreErrorKind::TimedOut)) };
            let _ = sender.send(answer);
        });
        StoreFuture::boxed(async move { receiver.await.expect("the task answers") })
    }
}

impl Store for Link {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        if self.delays_checks {
            self.travel(|link| link.store.check(checks))
        } else {
            self.store.check(checks)
        }
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.refunds.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics.swap(false, Ordering::SeqCst), "an error of the store");
        self.travel(|link| link.store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.store.settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store.reset(policy, key)
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        self.store.block(policy, key, length)
    }

    fn drain(&self) -> StoreFuture<()> {
        self.drains.fetch_add(1, Ordering::SeqCst);
        self.store.drain()
    }
}

fn key() -> Key {
    Key::from_fingerprints(7, 7, 1)
}

fn shares() -> Shares {
    Shares::equal(3).unwrap().set_aside(30).unwrap()
}

/// Lets the purchases go on as far as they get.
async fn settle_down() {
    for _ in 0..16 {
        yield_now().await;
    }
}
