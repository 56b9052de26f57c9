//! Retries that are spread over time.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{
    Global, Header, LayerError, LayerOptionError, Limit, PolicyExt as _, RateLimitHeaders, RateLimitLayer,
};
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::probe::{Answer, grpc, probed, request, send};
use crate::support::{Mode, TestStore, panic_of, registry, registry_of};

const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(1));
const SPREAD: Duration = Duration::from_secs(600);

fn by_user(store: &Arc<TestStore>) -> RateLimitLayer {
    layer(store, HOURLY.by(Header::named("x-user")))
}

fn layer(store: &Arc<TestStore>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(registry_of(Arc::clone(store)), limit)
}

fn number(answer: &Answer, name: &str) -> u64 {
    answer.header(name).unwrap().parse().unwrap()
}

/// The second response to the requests of a user.
async fn rejected(layer: &RateLimitLayer, user: &str) -> Answer {
    let (service, _) = probed(layer);
    send(&service, request(&[("x-user", user)])).await;
    send(&service, request(&[("x-user", user), ("accept", "application/json")])).await
}

#[tokio::test]
async fn one_number_is_in_every_field_and_never_too_early() {
    let headers = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF | RateLimitHeaders::IETF_DRAFT_6;
    let layer = by_user(&Arc::default()).headers(headers).spread_retries(SPREAD);
    let mut waits = Vec::new();
    for user in ["ada", "grace", "edsger", "barbara"] {
        let answer = rejected(&layer, user).await;
        let wait = number(&answer, "retry-after");
        assert!((3_600..=4_200).contains(&wait), "{wait}");
        assert_eq!(answer.header("ratelimit"), Some(format!(r#""hourly";r=0;t={wait}"#).as_str()));
        assert!(answer.text.contains(&format!(r#""retry-after":{wait}"#)), "{}", answer.text);
        assert!(answer.text.contains(&format!("retry after {wait} s")), "{}", answer.text);
        for reset in ["x-ratelimit-reset", "ratelimit-reset"] {
            assert_eq!(answer.header(reset), Some("3600"), "the figures are exact");
        }
        waits.push(wait);
    }
    waits.sort_unstable();
    waits.dedup();
    assert_eq!(waits.len(), 4);
}

#[tokio::test]
async fn a_client_is_told_the_same_in_http_and_grpc() {
    let layer = by_user(&Arc::default()).spread_retries(SPREAD);
    let first = rejected(&layer, "ada").await;
    let again = rejected(&layer, "ada").await;
    assert_eq!(first.header("retry-after"), again.header("retry-after"));
    let called = send(&probed(&layer).0, grpc(&[("x-user", "ada")])).await;
    assert_eq!(called.header("retry-after"), first.header("retry-after"));
    let millis = number(&called, "grpc-retry-pushback-ms");
    assert_eq!(millis.div_ceil(1_000), number(&first, "retry-after"));
    assert!(millis > 3_600_000);

    let details = Status::from_header_map(&called.headers).unwrap().get_error_details();
    let wait = details.retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(wait.as_nanos().div_ceil(1_000_000), u128::from(millis));
}

#[tokio::test]
async fn a_remembered_denial_by_a_shared_key_has_the_same_addition() {
    let store = Arc::<TestStore>::default();
    let total = Policy::fixed_window("total", Quota::per_hour(1));
    let user = Policy::fixed_window("user", Quota::per_hour(9));
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), total.by(Global))
        .and(user.by(Header::named("x-user")))
        .spread_retries(SPREAD);
    let ada = number(&rejected(&layer, "ada").await, "retry-after");
    let grace = number(&rejected(&layer, "grace").await, "retry-after");
    assert_ne!(ada, grace, "the key of the user is the narrowest");
    store.set(Mode::Remembering);
    assert_eq!(number(&rejected(&layer, "ada").await, "retry-after"), ada);
}

#[tokio::test]
async fn rejections_by_shared_keys_are_told_different_waits() {
    let layer = RateLimitLayer::new(registry(), HOURLY.by(Global)).spread_retries(SPREAD);
    let (service, _) = probed(&layer);
    send(&service, request(&[])).await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        waits.push(number(&send(&service, request(&[])).await, "retry-after"));
    }
    assert!(waits.iter().all(|wait| (3_600..=4_200).contains(wait)), "{waits:?}");
    waits.sort_unstable();
    assert!(waits.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{waits:?}");
}

#[tokio::test]
async fn look_ups_and_closures_are_told_the_sum() {
    let look_up = |parts: &http::request::Parts| {
        let user = parts.headers["x-user"].to_str().unwrap().to_owned();
        async move { Ok(portcullis_tower::Lookup::found("user", user)) }
    };
    let layer = RateLimitLayer::new(registry(), HOURLY.by_async(look_up)).spread_retries(SPREAD).reject_with(
        |rejection| {
            let wait = rejection.retry_after_seconds().unwrap();
            Response::new(format!("{wait}").into())
        },
    );
    let answer = rejected(&layer, "ada").await;
    assert_eq!(answer.header("retry-after"), Some(answer.text.as_str()));
    assert!(number(&answer, "retry-after") > 3_600);
}

#[tokio::test]
async fn rejections_without_a_wait_get_none() {
    let store = Arc::<TestStore>::default();
    let dear = layer(&store, HOURLY.by(Header::named("x-user")).cost(2)).spread_retries(SPREAD);
    let answer = rejected(&dear, "ada").await;
    assert_eq!((answer.status, answer.header("retry-after")), (400, None));

    store.set(Mode::Down);
    let closed = HOURLY.on_store_failure(FailureMode::Closed);
    let registry = registry_of(store);
    let closed = RateLimitLayer::new(registry, closed.by(Global)).spread_retries(SPREAD);
    let answer = rejected(&closed, "ada").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, None));
}

#[tokio::test]
async fn without_a_spread_the_wait_is_exact() {
    for layer in [by_user(&Arc::default()), by_user(&Arc::default()).spread_retries(Duration::ZERO)] {
        assert_eq!(rejected(&layer, "ada").await.header("retry-after"), Some("3600"));
    }
}

#[test]
fn a_spread_beyond_the_maximum_is_an_error() {
    let spread = RateLimitLayer::MAX_RETRY_SPREAD + Duration::from_nanos(1);
    let error = LayerError::from(LayerOptionError::RetrySpread { spread });
    assert_eq!(panic_of(|| by_user(&Arc::default()).spread_retries(spread)), error.to_string());
}

#[test]
#[should_panic(expected = "retries cannot be spread over 7200s: use at most 3600s")]
fn a_literal_spread_beyond_the_maximum_panics() {
    let _ = by_user(&Arc::default()).spread_retries(Duration::from_hours(2));
}
