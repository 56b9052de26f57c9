//! Stores that cannot answer.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{ClientIp, Global, OnMissing, PolicyExt as _, RateLimitLayer};

use crate::log::log;
use crate::probe::{grpc, probed, request, send};
use crate::support::{Mode, TestStore, registry_of};

const DOWN: [Mode; 2] = [Mode::Down, Mode::DownLater];

fn open() -> Policy {
    Policy::gcra("open", Quota::per_second(5).burst(7)).on_store_failure(FailureMode::Open)
}

fn closed() -> Policy {
    Policy::gcra("closed", Quota::per_minute(1)).on_store_failure(FailureMode::Closed)
}

fn limit(store: &Arc<TestStore>, policy: Policy) -> RateLimitLayer {
    RateLimitLayer::new(registry_of(Arc::clone(store)), policy.by(Global))
}

#[tokio::test]
async fn an_open_policy_lets_requests_pass_as_degraded() {
    let store = Arc::<TestStore>::default();
    let (service, probe) = probed(&limit(&store, open()).decision_in_response());
    for mode in DOWN {
        store.set(mode);
        let answer = send(&service, request(&[])).await;
        assert_eq!(
            (answer.status, answer.all_headers()),
            (200, vec!["x-ratelimit-degraded: true".to_owned()])
        );
        let seen = answer.seen.unwrap();
        assert!(seen.is_degraded() && seen.is_allowed());
        assert_eq!(
            (seen.policy().as_str(), seen.limit(), answer.in_response),
            ("open", 7, Some(seen.clone()))
        );
        assert!(seen.at().as_micros() > 1_700_000_000_000_000);
    }
    assert_eq!(probe.calls(), DOWN.len());
}

#[tokio::test]
async fn a_closed_policy_answers_503_and_never_429() {
    let store = Arc::<TestStore>::default();
    for layer in
        [limit(&store, closed()), limit(&store, open()).and(closed()), limit(&store, closed()).and(open())]
    {
        let (service, probe) = probed(&layer);
        for mode in DOWN {
            store.set(mode);
            let answer = send(&service, request(&[])).await;
            assert_eq!(answer.status, 503);
            assert_eq!(
                answer.all_headers(),
                ["cache-control: no-store", "content-type: text/plain; charset=utf-8"]
            );

            let answer = send(&service, grpc(&[])).await;
            assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("14")));
            assert_eq!(answer.header("grpc-retry-pushback-ms"), None);
        }
        assert_eq!(probe.calls(), 0);
    }
}

#[tokio::test]
async fn a_closed_policy_does_not_reject_requests_it_does_not_count() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let exempt = |_: &http::request::Parts, _: &mut portcullis_tower::KeyWriter<'_>| {
        Ok(portcullis_tower::Identity::Exempt)
    };
    let (service, _) = probed(&limit(&store, open()).and(closed().by(exempt)));
    assert_eq!(send(&service, request(&[])).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn outages_are_logged_once_per_transition() {
    let store = Arc::<TestStore>::default();
    let (log, _guard) = log();
    let (service, _) = probed(&limit(&store, open()));
    for mode in [Mode::Ready, Mode::Down, Mode::DownLater, Mode::Ready, Mode::Later, Mode::Down, Mode::Ready]
    {
        // The store has recovered after one second without failures.
        tokio::time::advance(Duration::from_millis(500)).await;
        store.set(mode);
        for _ in 0..3 {
            send(&service, request(&[])).await;
            tokio::time::advance(Duration::from_millis(400)).await;
        }
    }
    for _ in 0..50 {
        for mode in [Mode::Down, Mode::Ready] {
            store.set(mode);
            send(&service, request(&[])).await;
        }
    }
    let (down, up) = (
        "WARN the store of the rate limiter cannot answer code=PC301 error=the store is down meanwhile=\"open: open\"",
        "INFO the store of the rate limiter answers again policies=\"open: open\"",
    );
    assert_eq!(log.lines(), [down, up, down, up, down]);
}

#[tokio::test]
async fn a_server_without_addresses_answers_500_and_logs_why() {
    let (log, _guard) = log();
    let layer = RateLimitLayer::new(
        registry_of(Arc::default()),
        open().by(ClientIp::peer()).on_missing(OnMissing::Exempt),
    );
    let (service, probe) = probed(&layer);
    for _ in 0..3 {
        let answer = send(&service, request(&[])).await;
        assert_eq!(answer.status, 500);
        // Only a build with debug assertions names the line that is missing.
        let (message, hint) = answer.text.split_at("the server cannot tell who is calling".len());
        assert_eq!(message, "the server cannot tell who is calling");
        if cfg!(debug_assertions) {
            assert!(hint.contains(".into_make_service_with_connect_info::<SocketAddr>()`"), "{hint}");
            assert!(hint.contains("for Tonic the feature `tonic`"), "{hint}");
        } else {
            assert_eq!(hint, "\n");
        }
        assert_eq!(send(&service, grpc(&[])).await.header("grpc-status"), Some("13"));
    }
    assert_eq!(probe.calls(), 0);
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("ERROR")
            && lines[0].contains("into_make_service_with_connect_info::<SocketAddr>()")
    );
}

/// One line for the store, whichever layers see it fail, and whichever sees it answer.
#[tokio::test(start_paused = true)]
async fn outages_are_logged_once_with_policies_and_routes() {
    let (log, _guard) = log();
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let daily = |name| Policy::fixed_window(name, Quota::per_day(9));
    let layer = |policy: Policy, route: &str| {
        RateLimitLayer::new(Arc::clone(&registry), policy.by(Global)).route(route.to_owned())
    };
    let closed = daily("pay").on_store_failure(FailureMode::Closed);
    let services = [
        probed(&layer(daily("all"), "GET /search")).0,
        probed(&layer(daily("all"), "GET /items")).0,
        probed(&layer(closed, "POST /pay").and(daily("tried").by(Global).shadow())).0,
    ];
    let checked = portcullis_tower::CheckBuilder::new(&registry, &daily("check"))
        .by(|key| key.part("user", b"ada"))
        .await;
    assert!(checked.is_ok());
    store.set(Mode::Down);
    for service in &services {
        send(service, request(&[])).await;
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    store.set(Mode::Ready);
    // Not the layer whose request has failed first.
    send(&services[2], request(&[])).await;
    send(&services[0], request(&[])).await;
    let policies = "all: local, whole limit on GET /search, GET /items; pay: closed on POST /pay; tried: local, whole limit (shadow) on \
                    POST /pay; check: local, whole limit";
    let expected = [
        format!(
            r#"WARN the store of the rate limiter cannot answer code=PC301 error=the store is down meanwhile="{policies}""#
        ),
        format!(r#"INFO the store of the rate limiter answers again policies="{policies}""#),
    ];
    assert_eq!(log.lines(), expected);
}
