//! The stores, under a clock that the timeline sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portcullis::key::Key;
use portcullis::layer::LockOut;
use portcullis::store::{
    Block, Checks, Fallback, MemoryStore, Outcome, Override, Receipt, Renewal, Renewed, Settlement, Store,
    StoreErrorKind, StoreFuture,
};
use portcullis::testing::ManualClock;
use portcullis::{Decision, Limiter, Policy, Quota, Secret, StoreError};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Memory,
    Redis,
}

/// A store that can be opened anew for each file.
pub(crate) enum Stores {
    Memory,
    Redis(RedisServer),
}

/// A store of one file.
pub(crate) struct Opened {
    pub(crate) limiter: Limiter,
    pub(crate) clock: ManualClock,
    /// Whether the store answers nothing.
    pub(crate) fails: Arc<AtomicBool>,
}

impl Stores {
    pub(crate) fn start(kind: StoreKind) -> Self {
        match kind {
            StoreKind::Memory => Self::Memory,
            StoreKind::Redis => Self::Redis(RedisServer::start().unwrap()),
        }
    }

    pub(crate) async fn open(&self) -> Opened {
        let clock = ManualClock::default();
        let fails = Arc::new(AtomicBool::new(false));
        let inner: Arc<dyn Store> = match self {
            Self::Memory => Arc::new(memory(&clock)),
            Self::Redis(server) => {
                server.cli(&["FLUSHALL"]).unwrap();
                // What is remembered of a denial differs in its figures from what a store would answer.
                let store = RedisStore::builder(server.url()).deadline(DEADLINE).denial_memory(0);
                Arc::new(store.scenario_clock(clock.clone()).connect().await.unwrap())
            }
        };
        let store = Failing { inner, fails: Arc::clone(&fails) };
        let store = Fallback::builder(store).clock(clock.clone()).build();
        Opened { limiter: Limiter::new(store, Secret::published()), clock, fails }
    }
}

fn memory(clock: &ManualClock) -> MemoryStore<ManualClock> {
    MemoryStore::builder().clock(clock.clone()).build()
}

/// A late answer is no error here.
const DEADLINE: Duration = Duration::from_secs(20);

/// A store that answers nothing while it fails.
struct Failing {
    inner: Arc<dyn Store>,
    fails: Arc<AtomicBool>,
}

impl Failing {
    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Store) -> StoreFuture<T>) -> StoreFuture<T> {
        if self.fails.load(Ordering::SeqCst) {
            let error = StoreError::new(StoreErrorKind::Unavailable, "the store does not answer");
            return StoreFuture::ready(Err(error));
        }
        ask(&*self.inner)
    }
}

impl Store for Failing {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.ask(|store| store.check(checks))
    }
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.ask(|store| store.refund(receipt))
    }
    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.ask(|store| store.settle(receipt, cost))
    }
    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        self.ask(|store| store.renew(renewals))
    }
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.ask(|store| store.reset(policy, key))
    }
    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.inner.register(policy)
    }
    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        self.ask(|store| store.set_grant(policy, key, grant))
    }
    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        self.ask(|store| store.block(policy, key, length))
    }
    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.ask(|store| store.record_denials(policy, key, denials, lock_out))
    }
    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        self.ask(|store| store.overrides(policy, key))
    }
}
