//! Checks whose slot in a queue is too late, on a store that takes time to refund.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Quota, Receipt, Secret, Settlement};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Reason, Registry};
use tokio::time::Instant;

use super::check;
use crate::leaving::Virtual;

/// Ten units per second, for which requests may wait for an hour.
static ROWS: Policy = Policy::token_bucket("rows", Quota::per_minute(600).burst(1_000))
    .wait_at_most(Duration::from_secs(3_600));

/// A store that refunds 10 ms after it was asked to.
struct LateRefunds(Arc<MemoryStore<Virtual>>);

impl Store for LateRefunds {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.0.check(checks)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        let memory = Arc::clone(&self.0);
        StoreFuture::boxed(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            memory.refund(receipt).await
        })
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.0.settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.0.reset(policy, key)
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_is_too_late_ends_after_its_refund() {
    let memory = Arc::new(MemoryStore::builder().clock(Virtual(Instant::now())).build());
    let registry = Arc::new(Registry::new(Arc::new(LateRefunds(memory)), Secret::published()));
    let rows = |rows| check(&registry, &ROWS, "ada").cost(rows).at_most(Duration::from_secs(30));
    assert!(rows(1_000).await.is_ok());
    for _ in 0..3 {
        assert_eq!(rows(1_000).await.unwrap_err().reason(), Reason::Limited);
        assert!(rows(5).await.is_ok(), "its slot is not behind the one that was too late");
    }
}

/// The window begins after ten seconds, and the next slot is 14 s later.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_window_counts_in_a_queue() {
    static QUEUE: Policy = Policy::leaky_bucket("queue", Quota::per_minute(10).burst(9));
    let ten_seconds = Quota::new(1, Duration::from_secs(10), None).unwrap();
    let window = Policy::fixed_window("window", ten_seconds).wait_at_most(Duration::from_secs(60));
    for (at_most, ends, is_in_time) in [(20, 10, false), (30, 24, true)] {
        let memory = MemoryStore::builder().clock(Virtual(Instant::now())).build();
        let registry = Arc::new(Registry::new(Arc::new(memory), Secret::published()));
        assert!(check(&registry, &window, "ada").await.is_ok());
        let queued = [(); 4].map(|()| tokio::spawn(check(&registry, &QUEUE, "ada").into_future()));
        let at_most = Duration::from_secs(at_most);
        let start = Instant::now();
        let passed = check(&registry, &window, "ada").and(&QUEUE).at_most(at_most).await;
        assert_eq!((start.elapsed().as_secs(), passed.is_ok()), (ends, is_in_time));
        if let Err(late) = passed {
            let policy = late.decision().map(|decision| decision.policy().as_str());
            assert_eq!((policy, late.retry_after()), (Some("queue"), Some(Duration::ZERO)));
        }
        for queued in queued {
            assert!(queued.await.unwrap().is_ok());
        }
    }
}
