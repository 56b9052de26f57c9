//! Sliding logs that a client makes large to use up memory.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response};
use portcullis::key::Header;
use portcullis::store::MemoryStore;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
use std::sync::Arc;
use tower::{Layer as _, ServiceExt as _, service_fn};

#[tokio::test]
async fn large_costs_stay_within_the_byte_budget_of_the_policy() {
    let store = Arc::new(MemoryStore::new());
    let limiter = Limiter::new(Arc::clone(&store), Secret::published());
    let units = Policy::sliding_log("units", Quota::per_hour(100_000));
    // With an entry per unit, each request would take 80 kB, and 20 000 requests 1.5 GB.
    let layer = limiter.layer(units.by(Header::named("x-api-key")).cost(10_000));
    let service =
        layer.layer(service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty()))));
    let before = resident_bytes();
    for number in 0..20_000 {
        let request = Request::get("/").header("x-api-key", number.to_string()).body(Body::empty()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 200);
    }
    let stats = store.stats();
    assert_eq!((stats.entries, stats.overflow_states), (20_000, 0));
    assert!(stats.bytes < 5_000_000, "{stats:?}");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 500_000_000, "the process has grown by {grown} bytes");
}

/// The resident memory of this process. It includes the memory of other tests, so only its magnitude is asserted.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}
