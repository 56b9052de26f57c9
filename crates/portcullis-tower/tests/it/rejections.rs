//! Charges of requests that are rejected for their identity, and of look-ups.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use http::request::Parts;
use http::{HeaderValue, Request};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    AsyncKeyExtractor, Bearer, ClientIp, Global, Header, KeyError, KeyExtractor, Lookup, OnMissing,
    PolicyExt as _, RateLimitLayer, Registry, Route,
};
use tower::{Layer as _, ServiceExt as _};

use crate::probe::{probed, request, send};
use crate::support::{Mode, TestStore, registry_of};

pub(crate) const MODES: [Mode; 2] = [Mode::Ready, Mode::Later];

pub(crate) fn policy(name: &'static str, limit: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_hour(limit))
}

pub(crate) fn store(mode: Mode) -> (Arc<TestStore>, Arc<Registry>) {
    let store = Arc::<TestStore>::default();
    store.set(mode);
    (Arc::clone(&store), registry_of(store))
}

pub(crate) fn from(host: u8, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, host], 443)));
    request
}

pub(crate) async fn status(layer: &RateLimitLayer, request: Request<String>) -> u16 {
    send(&probed(layer).0, request).await.status
}

/// The remaining units under a policy, for the key of a request.
pub(crate) async fn left(
    registry: &Arc<Registry>,
    policy: Policy,
    key: impl KeyExtractor,
    request: Request<String>,
) -> String {
    let peek = RateLimitLayer::new(Arc::clone(registry), policy.by(key).cost(0));
    send(&probed(&peek).0, request).await.header("x-ratelimit-remaining").unwrap().to_owned()
}

/// A directory with one key, and a count of the look-ups that were started.
pub(crate) fn directory() -> (impl AsyncKeyExtractor, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let directory = move |parts: &Parts| {
        seen.fetch_add(1, Relaxed);
        let key = parts.headers.get("x-api-key").map(|key| key.to_str().unwrap().to_owned());
        async move {
            tokio::task::yield_now().await;
            Ok(match key.as_deref() {
                Some("right") => Lookup::found("tenant", "acme"),
                Some("internal") => Lookup::exempt(),
                Some("broken") => return Err(KeyError::client("the key is malformed")),
                Some("down") => return Err(KeyError::server("the directory is down")),
                Some("slow") => std::future::pending().await,
                _ => Lookup::missing(),
            })
        }
    };
    (directory, count)
}

#[tokio::test]
async fn an_address_that_sends_no_identity_is_limited() {
    for mode in MODES {
        let (_, registry) = store(mode);
        for layer in [
            RateLimitLayer::new(Arc::clone(&registry), policy("keys", 9).by(Bearer))
                .and(policy("address", 4).by(ClientIp::peer())),
            RateLimitLayer::new(registry_of(Arc::default()), policy("address", 4).by(ClientIp::peer()))
                .and(policy("keys", 9).by(Bearer)),
        ] {
            for headers in [&[][..], &[("authorization", "Bearer a b")]] {
                assert_eq!(status(&layer, from(1, headers)).await, 401);
                assert_eq!(status(&layer, from(1, headers)).await, 401);
            }
            assert_eq!(status(&layer, from(1, &[])).await, 429);
            assert_eq!(status(&layer, from(1, &[("authorization", "Bearer good")])).await, 429);
            assert_eq!(status(&layer, from(2, &[])).await, 401, "another address is not limited");
        }
    }
}

#[tokio::test]
async fn rejected_requests_use_up_no_budget_of_others() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy("user", 5).by(Header::named("x-user")))
            .and(policy("all", 5).by(Global))
            .and(policy("address", 100).by(ClientIp::peer()))
            .and(policy("tenants", 5).by_async(directory().0));
        let broken = [("x-user", "victim"), ("x-user", "x"), ("x-api-key", "right")];
        for headers in
            [&[("x-user", "victim")][..], &[("x-user", "victim"), ("x-api-key", "broken")], &broken]
        {
            for _ in 0..10 {
                assert_eq!(status(&layer, from(1, headers)).await, 400);
            }
        }
        let victim = [("x-user", "victim")];
        assert_eq!(left(&registry, policy("user", 5), Header::named("x-user"), from(2, &victim)).await, "5");
        assert_eq!(left(&registry, policy("all", 5), Global, from(2, &[])).await, "5");
        assert_eq!(left(&registry, policy("address", 100), ClientIp::peer(), from(1, &[])).await, "70");
    }
}

#[tokio::test]
async fn an_inner_layer_rejects_by_its_own_policies() {
    let (_, registry) = store(Mode::Ready);
    let outer = RateLimitLayer::new(Arc::clone(&registry), policy("all", 9).by(Global)).with_charge();
    let inner = RateLimitLayer::new(Arc::clone(&registry), policy("address", 2).by(ClientIp::peer()))
        .and(policy("keys", 9).by(Bearer));
    let service = outer.layer(inner.layer(crate::probe::Probe::default()));
    for expected in [401, 401, 429] {
        let response = service.clone().oneshot(from(1, &[])).await.unwrap();
        assert_eq!(response.status().as_u16(), expected);
    }
    assert_eq!(left(&registry, policy("all", 9), Global, from(1, &[])).await, "6");
}

#[test]
fn extractors_define_whether_rejections_count() {
    let (address, route) = (ClientIp::peer, Route::http_method);
    let shared: Arc<dyn KeyExtractor> = Arc::new(address());
    assert!(address().counts_rejections() && shared.counts_rejections());
    assert!(address().and(route()).counts_rejections() && route().and(address()).counts_rejections());
    assert!(address().credential(HeaderValue::from_static("x")).counts_rejections());
    assert!(!Header::named("x-api-key").or(address()).counts_rejections());
    assert!(!address().or(route()).counts_rejections());
    for other in [&Global as &dyn KeyExtractor, &Bearer, &route()] {
        assert!(!other.counts_rejections());
    }
}

#[tokio::test]
async fn the_shared_budget_counts_no_rejections() {
    let (_, registry) = store(Mode::Ready);
    // Requests without a user are charged to one shared budget.
    let pairs = || ClientIp::peer().and(Header::named("x-user"));
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        policy("pairs", 3).by(pairs()).on_missing(OnMissing::Shared),
    )
    .and(policy("keys", 9).by(Bearer));
    for _ in 0..9 {
        assert_eq!(status(&layer, from(1, &[])).await, 401);
    }
    for expected in [401, 401, 401, 429] {
        assert_eq!(status(&layer, from(1, &[("x-user", "ada")])).await, expected);
    }
    let marked = RateLimitLayer::new(
        registry_of(Arc::default()),
        policy("users", 2).by(Header::named("x-user")).count_rejections(),
    )
    .and(policy("keys", 9).by(Bearer));
    for expected in [401, 401, 429] {
        assert_eq!(status(&marked, from(1, &[("x-user", "ada")])).await, expected);
    }
}
