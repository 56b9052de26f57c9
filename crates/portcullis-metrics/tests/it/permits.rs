//! Permits of requests in flight: each is acquired once, and either released or lapsed.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{Concurrency, StoreErrorKind};
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer};

use crate::failing::{Mode, Setup, respond};

/// Lets time pass, on both clocks.
async fn pass(setup: &Setup, seconds: u64) {
    for _ in 0..seconds {
        setup.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_acquired_released_or_lapsed() {
    let setup = Setup::new();
    let lease = Duration::from_secs(30);
    let exports = Concurrency::new("exports", 5).lease(lease);
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), exports.by(Global));
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(respond(&layer, 0).await);
    }
    assert_eq!(respond(&layer, 0).await.status(), 429);
    held.truncate(3);
    let permits = |event| format!("portcullis_permits_total{{policy=\"exports\",event=\"{event}\"}}");
    let permits = ["acquired", "released", "lapsed"].map(permits);
    let [acquired, released, lapsed] = permits.each_ref().map(String::as_str);
    setup.counted(&["portcullis_permits_total"], &[(acquired, 5), (released, 2)]);

    // Renewed in time: none lapses.
    pass(&setup, 90).await;
    setup.counted(&["portcullis_permits_total"], &[(acquired, 5), (released, 2)]);
    setup.set(Mode::fails(StoreErrorKind::Unavailable));
    pass(&setup, 60).await;
    setup.set(Mode::Ready);
    pass(&setup, 30).await;
    setup.counted(&["portcullis_permits_total"], &[(acquired, 5), (released, 2), (lapsed, 3)]);

    // A late release changes nothing, and the permits are there again.
    drop(held);
    let again: Vec<_> = [respond(&layer, 0).await, respond(&layer, 0).await].into();
    drop(again);
    assert_eq!(setup.registry.drain(Duration::from_secs(60)).await.left, 0);
    let after = [(acquired, 7), (released, 4), (lapsed, 3)];
    setup.counted(&["portcullis_permits_total"], &after);
    setup.counted(&["portcullis_settlements_lost_total"], &[]);
}
