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
