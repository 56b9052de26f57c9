//! Reports of denials to a store that does not answer at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portcullis_core::overrides::{Block, LockOut, Override};
use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{
    Decision, Key, ManualClock, Policy, Receipt, Secret, Settlement, StoreError, StoreErrorKind,
};
use portcullis_memory::{Fallback, MemoryStore};
use portcullis_tower::Registry;
use tokio::runtime::Builder;
use tower::Layer as _;

use super::{MINUTE, blocks, get, layer, locking_out, login, statuses};
use crate::log::log;
use crate::probe::Probe;
use crate::support::{Mode, TestStore};

const SECOND: Duration = Duration::from_secs(1);

/// A store in memory that answers when it is polled again, as one behind a network.
struct Remote {
    memory: MemoryStore<ManualClock>,
    /// The denials of each report.
    reports: Mutex<Vec<u32>>,
    in_progress: Arc<AtomicUsize>,
    most_in_progress: AtomicUsize,
    is_down: AtomicBool,
}

impl Remote {
    fn new() -> (Arc<Self>, Arc<Registry>, ManualClock) {
        let clock = ManualClock::default();
        let store = Arc::new(Self {
            memory: MemoryStore::builder().clock(clock.clone()).build(),
            reports: Mutex::default(),
            in_progress: Arc::default(),
            most_in_progress: AtomicUsize::default(),
            is_down: AtomicBool::default(),
        });
        let registry = Registry::new(Arc::clone(&store) as Arc<dyn Store>, Secret::published());
        (store, Arc::new(registry), clock)
    }

    fn reports(&self) -> Vec<u32> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }
}

fn later<T: Send + Unpin + 'static>(answer: StoreFuture<T>) -> StoreFuture<T> {
    StoreFuture::boxed(async {
        tokio::task::yield_now().await;
        answer.await
    })
}

impl Store for Remote {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        later(self.memory.check(checks))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        later(self.memory.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        later(self.memory.settle(receipt, cost))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        later(self.memory.reset(policy, key))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        later(self.memory.block(policy, key, length))
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        later(self.memory.unblock(policy, key))
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.reports.lock().unwrap().push(denials);
        let in_progress = self.in_progress.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_in_progress.fetch_max(in_progress, Ordering::Relaxed);
        let is_down = self.is_down.load(Ordering::Relaxed);
        let answer = if is_down {
            StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "the store is down")))
        } else {
            self.memory.record_denials(policy, key, denials, lock_out)
        };
        let counter = Arc::clone(&self.in_progress);
        StoreFuture::boxed(async move {
            tokio::task::yield_now().await;
            counter.fetch_sub(1, Ordering::Relaxed);
            answer.await
        })
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        later(self.memory.overrides(policy, key))
    }
}

/// Lets the tasks of the layer run for a second.
async fn a_second() {
    tokio::time::sleep(SECOND + Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn denials_are_reported_once_a_second_per_key() {
    let (store, registry, _clock) = Remote::new();
    let blocks = blocks(&registry);
    let service =
        layer(&registry, login().lock_out(LockOut::after(1_000).within(MINUTE))).layer(Probe::default());
    // The first report shows that the store does not answer at once.
    statuses(&service, 1, 2).await;
    tokio::task::yield_now().await;
    assert_eq!(store.reports(), [1]);

    statuses(&service, 1, 50).await;
    statuses(&service, 2, 8).await;
    assert!(store.reports().is_empty(), "answers are not delayed by reports");
    a_second().await;
    assert_eq!(store.reports(), [50, 7]);
    statuses(&service, 2, 8).await;
    a_second().await;
    assert_eq!(store.reports(), [8]);

    // Without denials there is no report and no task.
    tokio::time::sleep(MINUTE).await;
    assert!(store.reports().is_empty() && blocks.lock().unwrap().is_empty());
    statuses(&service, 2, 1).await;
    a_second().await;
    assert_eq!(store.reports(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_out_begins_within_a_second_without_a_request() {
    let (_, registry, clock) = Remote::new();
    let blocks = blocks(&registry);
    let service = locking_out(&registry).layer(Probe::default());
    assert_eq!(statuses(&service, 1, 9).await[1..], [429; 8]);
    a_second().await;
    assert_eq!(*blocks.lock().unwrap(), [MINUTE * 10]);
    assert_eq!(get(&service, 1).await.header("retry-after"), Some("600"));

    // The denials of a blocked key are not reported.
    statuses(&service, 1, 50).await;
    a_second().await;
    clock.advance(MINUTE * 10);
    assert_eq!(get(&service, 1).await.status, 200);
}

#[test]
fn reports_go_on_in_another_runtime() {
    let (store, registry, _clock) = Remote::new();
    let service = locking_out(&registry).layer(Probe::default());
    let runtime = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let first = runtime();
    first.block_on(statuses(&service, 1, 3));
    assert_eq!(store.reports(), [1]);
    drop(first);
    runtime().block_on(async {
        statuses(&service, 1, 4).await;
        a_second().await;
    });
    assert_eq!(store.reports(), [5], "what the first runtime has counted is not lost");
}

#[tokio::test(start_paused = true)]
async fn reports_in_progress_are_bounded() {
    let (store, registry, _clock) = Remote::new();
    let service = locking_out(&registry).layer(Probe::default());
    for client in 0..200 {
        statuses(&service, client, 2).await;
    }
    a_second().await;
    assert_eq!(store.reports().len(), 200);
    assert_eq!(store.most_in_progress.load(Ordering::Relaxed), 32);
}

#[tokio::test(start_paused = true)]
async fn failed_reports_are_logged_once_and_lost() {
    let (store, registry, _clock) = Remote::new();
    let service = locking_out(&registry).layer(Probe::default());
    let (log, _guard) = log();
    store.is_down.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        statuses(&service, 1, 10).await;
        a_second().await;
    }
    let lines: Vec<_> =
        log.lines().into_iter().filter(|line| line.contains("reports of denials fail")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_ne!(get(&service, 1).await.header("retry-after"), Some("600"));

    store.is_down.store(false, Ordering::Relaxed);
    statuses(&service, 1, 10).await;
    a_second().await;
    assert_eq!(get(&service, 1).await.header("retry-after"), Some("600"));
}

#[tokio::test]
async fn remembered_denials_count_and_those_of_a_fallback_do_not() {
    for mode in [Mode::Remembering, Mode::Down] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry =
            Arc::new(Registry::new(Arc::new(Fallback::new(Arc::clone(&store))), Secret::published()));
        let service = locking_out(&registry).layer(Probe::default());
        let denied = statuses(&service, 1, 4).await.into_iter().filter(|status| *status == 429).count();
        assert!(denied >= 3);
        let recorded = store.reports.load(Ordering::Relaxed);
        assert_eq!(recorded, if mode == Mode::Remembering { denied } else { 0 }, "{mode:?}");
    }
}
