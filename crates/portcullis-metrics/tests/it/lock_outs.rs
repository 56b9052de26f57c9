//! Keys that are denied too often.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use portcullis_core::overrides::LockOut;
use portcullis_core::{ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{ClientIp, PolicyExt as _, RateLimitLayer, Registry};

use crate::support::{Recorded, send};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn each_lock_out_counts_once_and_its_denials_as_blocked() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let recorded = Recorded::new();
    recorded.metrics.observe(&registry);
    let login = Policy::fixed_window("login", Quota::per_minute(1));
    let layer = RateLimitLayer::new(
        registry,
        login
            .by(ClientIp::peer())
            .lock_out(LockOut::after(3).within(MINUTE).block_for(10 * MINUTE).up_to(10 * MINUTE)),
    );
    for _ in 0..2 {
        for client in 1..=5 {
            // One is admitted, the third denial blocks, and four meet the block. A client with two denials is not blocked.
            for _ in 0..if client == 5 { 3 } else { 8 } {
                let mut request = Request::new(String::new());
                request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, client], 1_024)));
                send(&layer, request).await;
            }
        }
        clock.advance(10 * MINUTE);
    }
    let expected = [
        ("portcullis_decisions_total{policy=\"login\",outcome=\"allowed\"}", 2 * 5),
        ("portcullis_decisions_total{policy=\"login\",outcome=\"blocked\"}", 2 * 4 * 4),
        ("portcullis_decisions_total{policy=\"login\",outcome=\"denied\"}", 2 * (4 * 3 + 2)),
        ("portcullis_lock_outs_total{policy=\"login\"}", 2 * 4),
    ];
    let counted = recorded.nonzero(&["portcullis_lock_outs_total", "portcullis_decisions_total"]);
    assert_eq!(counted, expected.map(|(series, value)| (series.to_owned(), value)).into());
}
