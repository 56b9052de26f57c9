//! The details of a gRPC status, decoded by Tonic's types.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::{Gcra, Policy, PolicyName, PolicySettings, Quota};
use portcullis_tower::{Bearer, Global, GrpcCode, PolicyExt as _, RateLimitLayer};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::probe::{grpc, probed, send};
use crate::support::{TestStore, registry, registry_of};

async fn status(layer: &RateLimitLayer, requests: usize) -> Status {
    let (service, _) = probed(layer);
    for _ in 1..requests {
        send(&service, grpc(&[])).await;
    }
    Status::from_header_map(&send(&service, grpc(&[])).await.headers).unwrap()
}

#[tokio::test]
async fn a_limited_call_has_the_exact_wait_and_all_violations() {
    let store = Arc::<TestStore>::default();
    store.micros.store(1, Ordering::Relaxed);
    let odd =
        Policy::try_new(r#"a "b" \c%"#, Gcra::new(Quota::per_second(3)), PolicySettings::default()).unwrap();
    let layer = RateLimitLayer::new(registry_of(store), odd.by(Global))
        .and(Policy::gcra("wide", Quota::per_minute(1).burst(9)))
        .and(Policy::fixed_window("hour", Quota::per_hour(1)));
    let status = status(&layer, 2).await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "rate limit exceeded: retry after 3600 s")
    );
    let details = status.get_error_details();
    let wait = details.retry_info().unwrap().retry_delay;
    assert_eq!(wait, Some(Duration::from_micros(3_600_000_000 - 1)));
    let violations: Vec<_> = details.quota_failure().unwrap().violations.iter().collect();
    assert_eq!(violations.len(), 2);
    assert_eq!((violations[0].subject.as_str(), violations[1].subject.as_str()), (r#"a "b" \c%"#, "hour"));
    assert_eq!(violations[1].description, "0 of 1 units remain");
}

#[tokio::test]
async fn closure_changes_status_message_and_headers() {
    let registry = registry();
    registry.reject_grpc_with(|rejection, response| {
        assert_eq!(response.code(), GrpcCode::ResourceExhausted);
        assert_eq!(response.message(), rejection.message());
        response.set_code(GrpcCode::Unavailable);
        response.set_message("slow down: 100 %");
        let headers = response.headers_mut();
        for (name, value) in [("x-plan", "free"), ("grpc-status", "0"), ("content-type", "text/html")] {
            headers.insert(name, http::HeaderValue::from_static(value));
        }
    });
    let layer = RateLimitLayer::new(registry, Policy::gcra("all", Quota::per_minute(1)).by(Global));
    let changed = status(&layer, 2).await;
    assert_eq!((changed.code(), changed.message()), (Code::Unavailable, "slow down: 100 %"));
    assert_eq!(changed.metadata().get("x-plan").unwrap(), "free");
    // The status and the message are the first fields of the details.
    assert_eq!(changed.details()[..2], [1 << 3, 14]);
    assert!(changed.details().windows(16).any(|bytes| bytes == b"slow down: 100 %"));
    assert!(changed.get_error_details().retry_info().is_some());
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, grpc(&[])).await.header("content-type"), Some("application/grpc"));

    let unchanged = layer.reject_grpc_with(|_, _| {});
    assert_eq!(status(&unchanged, 1).await.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_cost_that_never_fits_has_details_without_a_wait() {
    let all = Policy::gcra("all", Quota::per_second(1).burst(5)).by(Global);
    let never = status(&RateLimitLayer::new(registry(), all.clone().cost(6)), 1).await;
    assert_eq!(never.code(), Code::InvalidArgument);
    let details = never.get_error_details();
    assert!(details.retry_info().is_none());
    assert_eq!(details.quota_failure().unwrap().violations[0].description, "5 of 5 units remain");

    let unidentified = status(&RateLimitLayer::new(registry(), all.by(Bearer)), 1).await;
    assert_eq!((unidentified.code(), unidentified.details()), (Code::Unauthenticated, &b""[..]));
}

#[tokio::test]
async fn details_of_the_most_policies_stay_below_4_kib() {
    let policy = |index: usize| {
        let name = PolicyName::new(&format!("{index:02}{}", "\"\\".repeat(31))).unwrap();
        Policy::try_new(name.as_str(), Gcra::new(Quota::per_second(1)), PolicySettings::default()).unwrap()
    };
    let layer = RateLimitLayer::new(registry(), policy(0).by(Global));
    let layer = (1..portcullis_core::store::Checks::MAX).fold(layer, |layer, index| layer.and(policy(index)));
    let status = status(&layer, 2).await;
    assert_eq!(status.get_error_details().quota_failure().unwrap().violations.len(), 16);
    assert!(status.details().len() < 4_096, "{}", status.details().len());
}
