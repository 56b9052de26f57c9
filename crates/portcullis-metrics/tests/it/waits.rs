//! The time that requests wait.

use std::time::Duration;

use portcullis_core::{ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer, Registry};
use std::sync::Arc;

use crate::support::{Recorded, from_user, send};

#[tokio::test(start_paused = true)]
async fn waits_in_a_queue_are_recorded_for_its_policy() {
    let recorded = Recorded::new();
    // Only the time of tokio passes, which is paused.
    let store = Arc::new(MemoryStore::builder().clock(ManualClock::default()).build());
    let registry = Arc::new(Registry::new(store, Secret::published()));
    recorded.metrics.observe(&registry);
    let exports = Policy::leaky_bucket("exports", Quota::per_second(1).burst(3));
    let layer = RateLimitLayer::new(Arc::clone(&registry), exports.by(Global));
    let requests: Vec<_> = (0..3)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { send(&layer, from_user("ada")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_millis(500)).await;
    recorded.metrics.refresh(&registry);
    assert_eq!(format!("{}", recorded.series()["portcullis_waiting_requests"]), "2");
    for request in requests {
        assert_eq!(request.await.unwrap(), 200);
    }
    recorded.metrics.refresh(&registry);
    let series = recorded.series();
    assert_eq!(format!("{}", series["portcullis_waiting_requests"]), "0");
    assert_eq!(format!("{}", series["portcullis_wait_seconds_count{policy=\"exports\"}"]), "2");
}
