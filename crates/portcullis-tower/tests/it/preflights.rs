//! CORS preflights.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::request::Parts;
use http::{Method, Request};
use portcullis_core::{FailureMode, Gcra, Policy, PolicySettings, Quota};
use portcullis_tower::{
    Bearer, Global, Header, Identity, KeyWriter, Lookup, OnMissing, PolicyExt as _, RateLimitLayer,
};

use crate::probe::{Answer, Probe, probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

fn policy(name: &'static str, burst: u64) -> Policy {
    Policy::try_new(name, Gcra::new(Quota::per_minute(1).burst(burst)), PolicySettings::default()).unwrap()
}

fn layer() -> RateLimitLayer {
    RateLimitLayer::new(registry(), policy("all", 1).by(Global))
}

fn by_key(burst: u64) -> RateLimitLayer {
    by_key_or(burst, OnMissing::Reject)
}

fn by_key_or(burst: u64, on_missing: OnMissing) -> RateLimitLayer {
    let limit = policy("key", burst).by(Header::named("x-api-key")).on_missing(on_missing);
    RateLimitLayer::new(registry(), limit)
}

fn options(headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    *request.method_mut() = Method::OPTIONS;
    request
}

fn preflight(more: &[(&str, &str)]) -> Request<String> {
    options(&[&PREFLIGHT, more].concat())
}

const PREFLIGHT: [(&str, &str); 2] =
    [("origin", "https://example.com"), ("access-control-request-method", "GET")];

/// The statuses of `N` equal requests.
async fn statuses<const N: usize>(
    service: &portcullis_tower::RateLimit<Probe>,
    request: impl Fn() -> Request<String>,
) -> [u16; N] {
    let mut statuses = [0; N];
    for status in &mut statuses {
        *status = send(service, request()).await.status;
    }
    statuses
}

fn is_uncounted(answer: &Answer) -> bool {
    answer.status == 200 && answer.headers.is_empty() && answer.seen.is_none()
}

#[tokio::test]
async fn a_preflight_without_a_key_is_not_counted() {
    let by_token = RateLimitLayer::new(registry(), policy("all", 1).by(Bearer));
    for layer in [by_token, by_key(1), by_key_or(1, OnMissing::Shared)] {
        let (service, probe) = probed(&layer);
        for _ in 0..3 {
            assert!(is_uncounted(&send(&service, preflight(&[])).await));
        }
        assert_eq!(probe.calls(), 3);
    }
}

#[tokio::test]
async fn a_preflight_is_charged_to_a_separate_budget() {
    let (service, probe) = probed(&layer());
    let first = send(&service, preflight(&[])).await;
    assert_eq!((first.status, first.header("x-ratelimit-remaining")), (200, Some("0")));
    assert_eq!(first.seen.unwrap().remaining(), 0);
    let second = send(&service, preflight(&[])).await;
    assert_eq!((second.status, second.header("retry-after")), (429, Some("60")));
    // Preflights do not use the budget of requests.
    assert_eq!(statuses(&service, || request(&[])).await, [200, 429]);
    assert_eq!(probe.calls(), 2);
}

#[tokio::test]
async fn each_key_has_a_preflight_budget_of_its_own() {
    let (service, _) = probed(&by_key(2));
    for key in ["a", "b"] {
        let preflights = statuses(&service, || preflight(&[("x-api-key", key)])).await;
        assert_eq!(preflights, [200, 200, 429], "{key}");
        assert_eq!(statuses(&service, || request(&[("x-api-key", key)])).await, [200, 200, 429], "{key}");
    }
}

#[tokio::test]
async fn preflights_are_counted_by_policies_that_find_a_key() {
    let layer = by_key(1).and(policy("all", 2).by(Global));
    let (service, _) = probed(&layer);
    let first = send(&service, preflight(&[])).await;
    assert_eq!(first.seen.unwrap().policy().as_str(), "all");
    assert_eq!(statuses(&service, || preflight(&[])).await, [200, 429]);
    assert_eq!(send(&service, preflight(&[("x-api-key", "k")])).await.status, 429);
}

#[tokio::test]
async fn credentials_without_a_key_make_it_an_ordinary_request() {
    for header in ["authorization", "proxy-authorization", "cookie"] {
        for (on_missing, expected) in [
            (OnMissing::Reject, [400, 400]),
            (OnMissing::Shared, [200, 429]),
            (OnMissing::Exempt, [200, 200]),
        ] {
            let (service, _) = probed(&by_key_or(1, on_missing));
            let guesses = statuses(&service, || preflight(&[(header, "Basic YTpi")])).await;
            assert_eq!(guesses, expected, "{header} {on_missing:?}");
        }
    }
}

#[tokio::test]
async fn a_malformed_identity_is_rejected_in_preflights() {
    let layer = layer().and(policy("key", 9).by(Header::named("x-api-key")));
    let (service, probe) = probed(&layer);
    assert_eq!(send(&service, preflight(&[("x-api-key", "a"), ("x-api-key", "b")])).await.status, 400);
    assert_eq!(probe.calls(), 0);
}

#[tokio::test]
async fn a_preflight_costs_what_the_policy_says() {
    let layer = RateLimitLayer::new(
        registry(),
        policy("all", 10).by(Global).cost_by(|parts| if parts.uri.path() == "/export" { 4 } else { 0 }),
    );
    let (service, _) = probed(&layer);
    let export = || {
        let mut request = preflight(&[]);
        *request.uri_mut() = "/export".parse().unwrap();
        request
    };
    assert_eq!(statuses(&service, export).await, [200, 200, 429]);
    assert_eq!(send(&service, preflight(&[])).await.header("x-ratelimit-remaining"), Some("2"));
}

#[tokio::test]
async fn an_exemption_holds_for_preflights() {
    let exempt = |_: &Parts, _: &mut KeyWriter<'_>| Ok(Identity::Exempt);
    let (service, _) = probed(&RateLimitLayer::new(registry(), policy("all", 1).by(exempt)));
    for headers in [&[][..], &[("authorization", "Basic YTpi")]] {
        assert!(is_uncounted(&send(&service, preflight(headers)).await));
        assert!(is_uncounted(&send(&service, preflight(headers)).await));
    }
}

#[tokio::test]
async fn a_preflight_starts_no_look_up() {
    let never = |_: &Parts| async { unreachable!("a preflight is looked up") };
    let looked_up = RateLimitLayer::new(registry(), policy("tenant", 1).by_async(never));
    assert!(is_uncounted(&send(&probed(&looked_up).0, preflight(&[])).await));
    let (service, _) = probed(&looked_up.and(policy("all", 1).by(Global)));
    let guess = [("authorization", "Bearer made-up")];
    assert_eq!(statuses(&service, || preflight(&guess)).await, [200, 429]);
}

#[tokio::test]
async fn a_preflight_with_a_credential_is_looked_up() {
    let looked_up = RateLimitLayer::new(
        registry(),
        policy("tenant", 1).by_async(|_: &Parts| async { Ok(Lookup::found("tenant", "acme")) }),
    );
    let (service, _) = probed(&looked_up);
    let guess = || preflight(&[("authorization", "Bearer k-17")]);
    assert_eq!(statuses(&service, guess).await, [200, 429]);
    assert_eq!(send(&service, request(&[])).await.status, 429, "it was charged as a request");
}

#[tokio::test]
async fn shadow_policies_do_not_check_preflights() {
    let store = Arc::<TestStore>::default();
    let layer =
        RateLimitLayer::new(registry_of(Arc::clone(&store)), policy("planned", 1).by(Global).shadow());
    let (service, _) = probed(&layer);
    assert!(is_uncounted(&send(&service, preflight(&[])).await));
    assert_eq!(store.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_failure_mode_applies_to_preflights() {
    let store = Arc::<TestStore>::default();
    for mode in [Mode::Down, Mode::DownLater] {
        store.set(mode);
        for (failure, status) in [(FailureMode::Open, 200), (FailureMode::Closed, 503)] {
            let policy = policy("all", 1).on_store_failure(failure);
            let (service, _) =
                probed(&RateLimitLayer::new(registry_of(Arc::clone(&store)), policy.by(Global)));
            assert_eq!(send(&service, preflight(&[])).await.status, status);
        }
    }
}

#[tokio::test]
async fn a_body_makes_it_an_ordinary_request() {
    let (service, _) = probed(&layer());
    let with_body = || preflight(&[]).map(|_| String::from("a guess"));
    assert_eq!(statuses(&service, with_body).await, [200, 429]);
    assert_eq!(statuses(&service, || preflight(&[])).await, [200, 429]);
}

#[tokio::test]
async fn requests_that_are_not_preflights_are_counted() {
    let (service, _) = probed(&layer());
    assert_eq!(send(&service, options(&[])).await.status, 200);
    for headers in [&[][..], &PREFLIGHT[..1], &PREFLIGHT[1..]] {
        assert_eq!(send(&service, options(headers)).await.status, 429, "{headers:?}");
    }
    assert_eq!(send(&service, request(&PREFLIGHT)).await.status, 429, "another method");
}

#[tokio::test]
async fn limit_preflights_counts_them_as_requests() {
    let (service, _) = probed(&layer().limit_preflights());
    assert_eq!(send(&service, preflight(&[])).await.status, 200);
    assert_eq!(send(&service, preflight(&[])).await.status, 429);
    assert_eq!(send(&service, request(&[])).await.status, 429);
}
