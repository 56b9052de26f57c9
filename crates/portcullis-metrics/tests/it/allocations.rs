//! A request with metrics allocates no more than one without.

use std::sync::Arc;

use http::{Request, Response};
use metrics_exporter_prometheus::PrometheusBuilder;
use portcullis_core::{ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_metrics::Metrics;
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer, Registry};
use tower::{Layer as _, Service as _, service_fn};

/// The allocations of an admitted and a rejected request to a layer with two policies, with and without metrics.
fn allocations(with_metrics: bool) -> [u64; 2] {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let metrics = with_metrics.then(|| Metrics::with_recorder(PrometheusBuilder::new().build_recorder()));
    if let Some(metrics) = &metrics {
        metrics.observe(&registry);
    }
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        Policy::fixed_window("first", Quota::per_week(2)).by(Global),
    )
    .and(Policy::fixed_window("second", Quota::per_week(9)));
    let mut service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    // Makes the handles of what the policies can count, as each scrape does.
    if let Some(metrics) = &metrics {
        metrics.refresh(&registry);
    }
    let mut counts = [0; 3];
    for (count, status) in counts.iter_mut().zip([200, 200, 429]) {
        let request = Request::new(String::new());
        let info = allocation_counter::measure(|| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(service.poll_ready(&mut context).is_ready());
            let response = std::pin::pin!(service.call(request)).poll(&mut context);
            assert!(matches!(response, std::task::Poll::Ready(Ok(response)) if response.status() == status));
        });
        *count = info.count_total;
    }
    // The first request allocates what the store keeps of the policies.
    [counts[1], counts[2]]
}

#[test]
fn a_request_with_metrics_allocates_no_more_than_without() {
    assert_eq!(allocations(true), allocations(false));
}
