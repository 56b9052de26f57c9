//! A store that fails on command, and its fallback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use portcullis_core::overrides::{Block, LockOut};
use portcullis_core::store::{Checks, Outcome, Renewal, Renewed, Store, StoreFuture};
use portcullis_core::{
    Decision, FailureMode, Key, Policy, Quota, Receipt, Secret, Settlement, StoreError, StoreErrorKind,
    Timestamp,
};
use portcullis_memory::{Fallback, MemoryStore};
use portcullis_testing::ManualClock;

/// A memory store that fails on command.
pub(crate) struct Faulty {
    pub(crate) store: MemoryStore<ManualClock>,
    pub(crate) down: AtomicUsize,
    /// The kind of its errors.
    pub(crate) kind: Mutex<StoreErrorKind>,
    /// Whether it cannot charge under `OPEN_FOR`.
    pub(crate) is_full: AtomicUsize,
    pub(crate) later: bool,
    pub(crate) outage: Option<Duration>,
    pub(crate) corrected: AtomicUsize,
    /// Whether it answers with remembered denials, without a call.
    pub(crate) remembers: AtomicUsize,
}

impl Faulty {
    pub(crate) fn new(store: MemoryStore<ManualClock>, later: bool, outage: Option<Duration>) -> Self {
        let kind = StoreErrorKind::TimedOut.into();
        Self {
            store,
            down: 0.into(),
            kind,
            is_full: 0.into(),
            later,
            outage,
            corrected: 0.into(),
            remembers: 0.into(),
        }
    }

    fn answer<T: Send + 'static>(
        &self,
        call: impl FnOnce(&MemoryStore<ManualClock>) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let down = self.down.load(Ordering::Relaxed) > 0;
        let answer = if down {
            let error = StoreError::new(*self.kind.lock().unwrap(), "no answer");
            Err(self.outage.into_iter().fold(error, StoreError::with_outage))
        } else {
            call(&self.store).into_ready().unwrap()
        };
        if self.later { StoreFuture::boxed(async { answer }) } else { StoreFuture::ready(answer) }
    }
}

impl Store for Faulty {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        if self.remembers.load(Ordering::Relaxed) > 0 {
            let check = checks.iter().next().unwrap().clone();
            let (strategy, mut state) = (*check.policy.strategy(), None);
            strategy.charge(&mut state, START, strategy.limit());
            let snapshot = strategy.snapshot(state.as_ref(), START, check.cost, false);
            return StoreFuture::ready(Ok(Outcome::remembered(check, START, snapshot).unwrap()));
        }
        let outcome = self.answer(|store| store.check(checks.clone()));
        if self.is_full.load(Ordering::Relaxed) > 0
            && checks.iter().any(|check| *check.policy.name() == *OPEN_FOR.name())
        {
            let error = StoreError::new(StoreErrorKind::Failed, "full");
            return StoreFuture::ready(Err(self.outage.into_iter().fold(error, StoreError::with_outage)));
        }
        outcome
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.corrected.fetch_add(1, Ordering::Relaxed);
        self.answer(|store| store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.corrected.fetch_add(1, Ordering::Relaxed);
        self.answer(|store| store.settle(receipt, cost))
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        self.answer(|store| store.renew(renewals))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.answer(|store| store.reset(policy, key))
    }

    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        self.answer(|store| store.set_grant(policy, key, grant))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        self.answer(|store| store.block(policy, key, length))
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.answer(|store| store.unblock(policy, key))
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.answer(|store| store.record_denials(policy, key, denials, lock_out))
    }
}

pub(crate) struct Env {
    pub(crate) clock: ManualClock,
    pub(crate) faulty: Arc<Faulty>,
    pub(crate) store: Fallback<Arc<Faulty>, ManualClock>,
}

impl Env {
    pub(crate) fn new(later: bool) -> Self {
        Self::with_outage(later, None)
    }

    pub(crate) fn with_outage(later: bool, outage: Option<Duration>) -> Self {
        let clock = ManualClock::default();
        clock.set(START);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let faulty = Arc::new(Faulty::new(store, later, outage));
        let store = Fallback::builder(Arc::clone(&faulty)).clock(clock.clone()).build();
        Self { clock, faulty, store }
    }

    pub(crate) fn down(&self, down: bool) {
        self.faulty.down.store(down.into(), Ordering::Relaxed);
    }

    /// Another instance, which has just started.
    pub(crate) fn another(&self) -> Fallback<Arc<Faulty>, ManualClock> {
        Fallback::builder(Arc::clone(&self.faulty)).clock(self.clock.clone()).build()
    }

    pub(crate) fn wait(&self, wait: Duration) {
        use portcullis_core::Clock as _;

        self.clock.set(self.clock.now().saturating_add(wait));
    }

    pub(crate) fn check(&self, checks: Checks) -> Result<Outcome, StoreError> {
        now(self.store.check(checks))
    }

    pub(crate) fn ask(&self, policy: &Policy, cost: u64) -> Result<Outcome, StoreError> {
        self.check(Checks::one(policy.clone(), key(), cost))
    }

    pub(crate) fn receipt(&self, policy: &Policy, cost: u64) -> Receipt {
        self.ask(policy, cost).unwrap().into_receipts().next().unwrap()
    }

    pub(crate) fn left(&self, policy: &Policy) -> u64 {
        self.ask(policy, 0).unwrap().decision().remaining()
    }
}

pub(crate) fn now<T: Unpin>(future: StoreFuture<T>) -> Result<T, StoreError> {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(answer) = std::pin::pin!(future).poll(&mut context) else {
        panic!("the future is not ready")
    };
    answer
}

pub(crate) fn key() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    hasher.finish().unwrap()
}

pub(crate) const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
pub(crate) const LOCAL: Policy =
    Policy::fixed_window("local", Quota::per_day(12)).on_store_failure(FailureMode::local(4));
pub(crate) const OTHER: Policy =
    Policy::gcra("other", Quota::per_minute(4).burst(4)).on_store_failure(FailureMode::local(2));
pub(crate) const OPEN: Policy =
    Policy::fixed_window("open", Quota::per_day(3)).on_store_failure(FailureMode::Open);
pub(crate) const CLOSED: Policy =
    Policy::fixed_window("closed", Quota::per_day(100)).on_store_failure(FailureMode::Closed);
pub(crate) const HALF_A_MINUTE: Duration = Duration::from_secs(30);
pub(crate) const OPEN_FOR: Policy = Policy::fixed_window("open for", Quota::per_day(100))
    .on_store_failure(FailureMode::OpenFor(HALF_A_MINUTE));
