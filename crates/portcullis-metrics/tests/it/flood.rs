//! The number of series is bounded, whatever clients send.

use std::sync::Arc;

use http::Request;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Header, PolicyExt as _, RateLimitLayer};

use crate::support::{Recorded, send};

#[tokio::test]
async fn many_keys_add_no_series_and_no_identity() {
    let (registry, recorded) = Recorded::registry(10_000);
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        Policy::fixed_window("search", Quota::per_week(1)).by(Header::named("x-user")),
    );
    let request = |number: u32| {
        Request::builder()
            .uri(format!("/page-{number}"))
            .header("x-user", format!("user-{number}"))
            .body(String::new())
            .unwrap()
    };
    for number in 0..3 {
        send(&layer, request(number)).await;
    }
    recorded.metrics.refresh(&registry);
    let before = recorded.series();
    for number in 0..100_000 {
        send(&layer, request(number)).await;
    }
    recorded.metrics.refresh(&registry);
    let after = recorded.series();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(after.len() < 200, "{}", after.len());
    let text = recorded.text();
    assert!(!text.contains("user-") && !text.contains("page-"), "{text}");
    let requests = after.iter().filter(|(name, _)| name.starts_with("portcullis_requests_total"));
    assert_eq!(format!("{}", requests.map(|(_, value)| value).sum::<f64>()), "100003");
}
