//! An overloaded store has not failed.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{Global, Header, Limit, PolicyExt as _, RateLimitHeaders, RateLimitLayer};

use crate::log::log;
use crate::probe::{grpc, probed, request, send};
use crate::support::{Mode, TestStore, registry_of};

const OVERLOADED: [Mode; 2] = [Mode::Overloaded, Mode::OvertakenLater];

fn limit(store: &Arc<TestStore>, failure: FailureMode) -> RateLimitLayer {
    layer(store, policy(failure).by(Global))
}

fn policy(failure: FailureMode) -> Policy {
    Policy::gcra("all", Quota::per_second(5).burst(7)).on_store_failure(failure)
}

fn layer(store: &Arc<TestStore>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(registry_of(Arc::clone(store)), limit)
}

#[tokio::test]
async fn overload_is_503_in_every_failure_mode() {
    for failure in [
        FailureMode::Open,
        FailureMode::OpenFor(Duration::from_mins(1)),
        FailureMode::local(1),
        FailureMode::Closed,
    ] {
        let store = Arc::<TestStore>::default();
        let (service, probe) = probed(&limit(&store, failure).decision_in_response());
        for mode in OVERLOADED {
            store.set(mode);
            let answer = send(&service, request(&[("accept", "application/json")])).await;
            assert_eq!((answer.status, answer.in_response), (503, None), "{failure}");
            let headers: Vec<_> = answer.headers.keys().map(|name| name.as_str().to_owned()).collect();
            assert_eq!(headers, ["content-type", "cache-control"], "{failure}");
            assert!(answer.text.contains("#temporary-reduced-capacity"), "{}", answer.text);

            let answer = send(&service, grpc(&[])).await;
            assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("14")));
            assert_eq!(answer.header("grpc-retry-pushback-ms"), None);
        }
        assert_eq!(probe.calls(), 0, "{failure}");
        store.set(Mode::Ready);
        let seen = send(&service, request(&[])).await.seen.unwrap();
        assert_eq!(seen.remaining(), 6, "an overloaded store has charged nothing");
    }
}

#[tokio::test]
async fn overload_rejects_nothing_in_shadow_mode() {
    let store = Arc::<TestStore>::default();
    let layer = layer(&store, policy(FailureMode::Closed).by(Header::named("x-user")).shadow());
    let (service, probe) = probed(&layer.headers(RateLimitHeaders::SHADOW));
    for mode in OVERLOADED {
        store.set(mode);
        assert_eq!(send(&service, request(&[("x-user", "ada")])).await.status, 200);
    }
    assert_eq!(probe.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn overload_is_logged_separately_and_throttled() {
    let store = Arc::<TestStore>::default();
    let (log, _guard) = log();
    let (service, _) = probed(&limit(&store, FailureMode::Open));
    store.set(Mode::Overloaded);
    for _ in 0..50 {
        send(&service, request(&[])).await;
    }
    let overloaded = "WARN the store of the rate limiter is overloaded: requests are rejected with 503; counted since the \
                      last such line code=PC303 error=too many calls wait checks=1";
    assert_eq!(log.lines(), [overloaded]);

    // It neither ends an outage nor begins one.
    let down = r#"WARN the store of the rate limiter cannot answer code=PC301 error=the store is down meanwhile="all: open""#;
    for mode in [Mode::Down, Mode::Overloaded, Mode::Down] {
        store.set(mode);
        send(&service, request(&[])).await;
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    assert_eq!(log.lines(), [overloaded, down]);
}

#[tokio::test(start_paused = true)]
async fn a_remembered_denial_is_limited_and_ends_no_outage() {
    let store = Arc::<TestStore>::default();
    let (log, _guard) = log();
    let layer = limit(&store, FailureMode::Open)
        .and(Policy::fixed_window("day", Quota::per_day(9)).on_store_failure(FailureMode::Open));
    let (service, probe) = probed(&layer);
    for mode in [Mode::Down, Mode::Remembering, Mode::Down, Mode::Remembering] {
        store.set(mode);
        let answer = send(&service, request(&[])).await;
        assert_eq!(answer.status, if mode == Mode::Down { 200 } else { 429 });
        // The other policy was not checked.
        let limit = (mode == Mode::Remembering).then_some("7");
        assert_eq!(answer.header("x-ratelimit-limit"), limit);
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    assert_eq!(probe.calls(), 2);
    let meanwhile = r#"meanwhile="all: open; day: open""#;
    let down = format!(
        "WARN the store of the rate limiter cannot answer code=PC301 error=the store is down {meanwhile}"
    );
    assert_eq!(log.lines(), [down]);
}

#[tokio::test]
async fn a_remembered_denial_of_a_shadow_policy_would_reject() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Remembering);
    let layer =
        layer(&store, policy(FailureMode::Closed).by(Global).shadow()).headers(RateLimitHeaders::SHADOW);
    let (service, probe) = probed(&layer);
    let answer = send(&service, request(&[])).await;
    assert_eq!((answer.status, probe.calls()), (200, 1));
    assert!(answer.all_headers().iter().any(|header| header.contains("all")), "{:?}", answer.all_headers());
}
