//! A layer with look-ups decides before them and after them.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Waker};
use std::time::Duration;

use http::HeaderValue;
use http::Request;
use http::request::Parts;
use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{
    Decision, FailureMode, Key, Policy, Receipt, Secret, Settlement, StoreError, StoreErrorKind,
};
use portcullis_tower::{
    Charge, ClientIp, Global, Header, Lookup, OnMissing, PolicyExt as _, RateLimitLayer, Registry,
};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::log::log;
use crate::probe::{grpc, probed, send};
use crate::rejections::{MODES, directory, from, left, policy, status, store};
use crate::support::{Mode, TestStore};

#[tokio::test]
async fn a_denial_before_the_look_ups_wins_and_starts_none() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let (directory, lookups) = directory();
        let layer = RateLimitLayer::new(registry, policy("tenants", 9).by_async(directory))
            .with_charge()
            .and(policy("address", 3).by(ClientIp::peer()));
        for expected in [400, 400, 400, 429, 429] {
            assert_eq!(status(&layer, from(1, &[("x-api-key", "guess")])).await, expected);
        }
        assert_eq!(status(&layer, from(1, &[("x-api-key", "right")])).await, 429);
        assert_eq!(lookups.load(Relaxed), 3);
        assert_eq!(status(&layer, from(2, &[("x-api-key", "right")])).await, 200);
    }
}

#[tokio::test]
async fn a_denial_after_the_look_ups_refunds_the_first_decision() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy("address", 9).by(ClientIp::peer()))
            .with_charge()
            .and(policy("tenants", 1).by_async(directory().0));
        let (service, _) = probed(&layer);
        let right = || from(1, &[("x-api-key", "right")]);
        assert_eq!(send(&service, right()).await.status, 200);
        for _ in 0..3 {
            let denied = send(&service, right()).await;
            assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("1")));
        }
        assert_eq!(left(&registry, policy("address", 9), ClientIp::peer(), from(1, &[])).await, "8");
    }
}

/// Fails to check the policy `tenants`, and to refund unless `refunds` is set.
struct Partial {
    store: TestStore,
    kind: StoreErrorKind,
    refunds: bool,
}

impl Partial {
    fn failure<T>(&self) -> StoreFuture<T> {
        StoreFuture::ready(Err(StoreError::new(self.kind, "not now")))
    }
}

impl Store for Partial {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let fails = checks.iter().any(|check| check.policy.name().as_str() == "tenants");
        if fails { self.failure() } else { self.store.check(checks) }
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        if self.refunds { self.store.refund(receipt) } else { self.failure() }
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unimplemented!("nothing is settled")
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unimplemented!("nothing is reset")
    }
}

#[tokio::test]
async fn a_second_decision_that_fails_refunds_the_first() {
    use StoreErrorKind::{Overloaded, TimedOut};

    for (mode, kind, refunds, expected) in [
        (Mode::Ready, TimedOut, true, "9"),
        (Mode::Later, TimedOut, true, "9"),
        (Mode::Ready, Overloaded, true, "9"),
        // A refund that fails does not change the response.
        (Mode::Ready, TimedOut, false, "8"),
        (Mode::Later, Overloaded, false, "8"),
    ] {
        let store = Partial { store: TestStore::default(), kind, refunds };
        store.store.set(mode);
        let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
        let closed = policy("tenants", 1).on_store_failure(FailureMode::Closed);
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy("address", 9).by(ClientIp::peer()))
            .with_charge()
            .and(closed.by_async(directory().0));
        assert_eq!(status(&layer, from(1, &[("x-api-key", "right")])).await, 503);
        let left = left(&registry, policy("address", 9), ClientIp::peer(), from(1, &[])).await;
        assert_eq!(left, expected, "{mode:?} {kind:?}");
    }
}

#[tokio::test]
async fn both_decisions_leave_one_charge_and_one_decision() {
    for (mode, first, second) in
        [(Mode::Ready, 9, 3), (Mode::Later, 9, 3), (Mode::Ready, 3, 9), (Mode::Later, 3, 9)]
    {
        let (_, registry) = store(mode);
        let layer =
            RateLimitLayer::new(Arc::clone(&registry), policy("tenants", second).by_async(directory().0))
                .with_charge()
                .and(policy("address", first).by(ClientIp::peer()))
                .decision_in_response();
        let service = layer.layer(tower::service_fn(async |request: Request<String>| {
            let charge = request.extensions().get::<Charge>().unwrap().clone();
            let names: Vec<_> = charge.decisions().iter().map(|one| one.policy().to_string()).collect();
            assert_eq!(names, ["address", "tenants"]);
            assert!(charge.outer().is_none());
            assert!(charge.charge_more(1).await.unwrap().is_allowed());
            charge.for_policy("tenants").unwrap().settle(1).await.unwrap();
            Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
        }));
        let response = service.oneshot(from(1, &[("x-api-key", "right")])).await.unwrap();
        let decision = response.extensions().get::<Decision>().unwrap();
        let (name, remaining) = if first < second { ("address", 1) } else { ("tenants", 2) };
        assert_eq!((decision.policy().as_str(), decision.remaining()), (name, remaining), "{mode:?}");
        assert_eq!(response.headers()["x-ratelimit-limit"], HeaderValue::from(3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_times_out_is_503_and_not_missing() {
    for (deadline, millis) in [(None, 1_000), (Some(Duration::from_millis(70)), 70)] {
        let (_, registry) = store(Mode::Later);
        let (log, _guard) = log();
        let mut layer = RateLimitLayer::new(
            Arc::clone(&registry),
            policy("tenants", 9).by_async(directory().0).on_missing(OnMissing::Exempt),
        )
        .with_charge()
        .and(policy("all", 9).by(Global))
        .and(policy("address", 3).by(ClientIp::peer()));
        if let Some(deadline) = deadline {
            layer = layer.lookup_deadline(deadline);
        }
        let (service, probe) = probed(&layer);
        let start = tokio::time::Instant::now();
        let answer = send(&service, from(1, &[("x-api-key", "slow")])).await;
        assert_eq!((answer.status, answer.text.as_str()), (503, "the server cannot tell who is calling\n"));
        assert_eq!((answer.header("retry-after"), start.elapsed().as_millis()), (None, millis));
        let mut slow = grpc(&[("x-api-key", "slow")]);
        slow.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 1], 443)));
        assert_eq!(send(&service, slow).await.header("grpc-status"), Some("14"));
        assert_eq!(send(&service, from(1, &[("x-api-key", "down")])).await.status, 503);
        assert_eq!(probe.calls(), 0);

        // Look-ups that were started are charged to the address only.
        assert_eq!(status(&layer, from(1, &[("x-api-key", "slow")])).await, 429);
        assert_eq!(left(&registry, policy("all", 9), Global, from(1, &[])).await, "9");
        let lines = log.lines();
        assert!(lines.len() == 1 && lines[0].contains("look-ups fail"), "{lines:?}");
        assert!(lines[0].ends_with("lookups=1") && lines[0].contains("policy=tenants"), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_shadow_look_up_rejects_nothing() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let layer = RateLimitLayer::new(registry, policy("planned", 9).by_async(directory().0).shadow())
            .with_charge()
            .and(policy("address", 9).by(ClientIp::peer()));
        let start = tokio::time::Instant::now();
        for (key, millis) in [("down", 0), ("broken", 0), ("guess", 0), ("right", 0), ("slow", 1_000)] {
            assert_eq!(status(&layer, from(1, &[("x-api-key", key)])).await, 200, "{key}");
            assert_eq!(start.elapsed().as_millis(), millis, "{key}");
        }
    }
}

#[tokio::test]
async fn a_disconnect_during_a_look_up_keeps_the_address_charged() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let (directory, lookups) = directory();
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy("address", 5).by(ClientIp::peer()))
            .with_charge()
            .and(policy("all", 5).by(Global))
            .and(policy("tenants", 5).by_async(directory));
        let (mut service, _) = probed(&layer);
        for _ in 0..20 {
            let future = service.ready().await.unwrap().call(from(1, &[("x-api-key", "slow")]));
            let mut future = pin!(future);
            for _ in 0..3 {
                if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        tokio::task::yield_now().await;
        assert_eq!(lookups.load(Relaxed), 5, "{mode:?}");
        assert_eq!(left(&registry, policy("address", 5), ClientIp::peer(), from(1, &[])).await, "0");
        assert_eq!(left(&registry, policy("all", 5), Global, from(1, &[])).await, "5");
    }
}

#[tokio::test]
async fn shared_budget_bounds_look_ups() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let (directory, lookups) = directory();
        let users = || Header::named("x-user");
        let layer = RateLimitLayer::new(
            Arc::clone(&registry),
            policy("users", 5).by(users()).on_missing(OnMissing::Shared),
        )
        .with_charge()
        .and(policy("all", 9).by(Global))
        .and(policy("tenants", 1).by_async(directory));
        let ask = async |key| status(&layer, from(1, &[("x-api-key", key)])).await;
        // What the second decision denies gives the budget back.
        assert_eq!([ask("right").await, ask("right").await, ask("right").await], [200, 429, 429], "{mode:?}");
        for guess in 0..20 {
            assert_eq!(ask("guess").await, if guess < 4 { 400 } else { 429 }, "{mode:?}");
        }
        assert_eq!(lookups.load(Relaxed), 3 + 4, "{mode:?}");
        assert_eq!(left(&registry, policy("all", 9), Global, from(1, &[])).await, "8", "{mode:?}");
    }
}

#[tokio::test]
async fn exempt_missing_and_free_requests_pass_both_decisions() {
    let (_, registry) = store(Mode::Ready);
    let layer = |on_missing, cost| {
        RateLimitLayer::new(
            Arc::clone(&registry),
            policy("tenants", 2).by_async(directory().0).on_missing(on_missing),
        )
        .with_charge()
        .and(policy("address", 9).by(ClientIp::peer()).cost(cost))
    };
    for (on_missing, key, statuses) in [
        (OnMissing::Reject, "internal", [200, 200, 200]),
        (OnMissing::Exempt, "guess", [200, 200, 200]),
        (OnMissing::Shared, "guess", [200, 200, 429]),
    ] {
        for expected in statuses {
            assert_eq!(
                status(&layer(on_missing, 1), from(1, &[("x-api-key", key)])).await,
                expected,
                "{key}"
            );
        }
    }
    assert_eq!(left(&registry, policy("address", 9), ClientIp::peer(), from(1, &[])).await, "1");
    let free = layer(OnMissing::Reject, 0);
    for _ in 0..3 {
        assert_eq!(status(&free, from(1, &[("x-api-key", "internal")])).await, 200);
    }
    assert_eq!(left(&registry, policy("address", 9), ClientIp::peer(), from(1, &[])).await, "1");
}

#[tokio::test]
async fn an_open_policy_lets_a_request_pass_either_decision() {
    for breaks_first in [true, false] {
        let (store, registry) = store(if breaks_first { Mode::Down } else { Mode::Ready });
        let breaks = Arc::clone(&store);
        let lookup = move |_: &Parts| {
            breaks.set(if breaks_first { Mode::Ready } else { Mode::Down });
            async { Ok(Lookup::found("tenant", "acme")) }
        };
        let open = |name| policy(name, 9).on_store_failure(FailureMode::Open);
        let layer = RateLimitLayer::new(registry, open("address").by(ClientIp::peer()))
            .with_charge()
            .and(open("tenants").by_async(lookup));
        let answer = send(&probed(&layer).0, from(1, &[])).await;
        let seen = answer.seen.unwrap();
        let counted = if breaks_first { "tenants" } else { "address" };
        assert_eq!((answer.status, seen.policy().as_str(), seen.remaining()), (200, counted, 8));
    }
    let (_, registry) = store(Mode::Down);
    let open = |name| policy(name, 9).on_store_failure(FailureMode::Open);
    let layer = RateLimitLayer::new(registry, open("tenants").by_async(directory().0))
        .with_charge()
        .and(open("address").by(ClientIp::peer()));
    let answer = send(&probed(&layer).0, from(1, &[("x-api-key", "right")])).await;
    assert_eq!((answer.status, answer.all_headers()), (200, vec!["x-ratelimit-degraded: true".to_owned()]));
}
