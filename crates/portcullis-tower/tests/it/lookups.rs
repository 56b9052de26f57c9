//! Keys that have to be looked up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::request::Parts;
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{
    AsyncKeyExtractor, Global, Header, KeyError, Lookup, OnMissing, PolicyExt as _, RateLimitLayer,
};

use crate::probe::{grpc, probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

/// A directory with two API keys of one tenant, exempt, revoked and unknown keys, and keys that fail.
fn tenants() -> (impl AsyncKeyExtractor, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let tenants = move |parts: &Parts| {
        seen.fetch_add(1, Ordering::Relaxed);
        let key = parts.headers.get("x-api-key").map(|key| key.to_str().unwrap().to_owned());
        async move {
            tokio::task::yield_now().await;
            Ok(match key.as_deref() {
                Some("acme-1" | "acme-2") => Lookup::found("tenant", "acme"),
                Some("beta") => Lookup::found("tenant", "ac").and("plan", "me"),
                Some("internal") => Lookup::exempt(),
                Some("revoked") => return Err(KeyError::client("the key is revoked")),
                Some("down") => return Err(KeyError::server("the directory is down")),
                _ => Lookup::missing(),
            })
        }
    };
    (tenants, count)
}

fn policy(name: &'static str) -> Policy {
    Policy::gcra(name, Quota::per_minute(1))
}

async fn statuses(layer: &RateLimitLayer, keys: &[&str]) -> Vec<u16> {
    let (service, _) = probed(layer);
    let mut statuses = Vec::new();
    for key in keys {
        statuses.push(send(&service, request(&[("x-api-key", key)])).await.status);
    }
    statuses
}

#[tokio::test]
async fn looked_up_keys_are_charged_in_every_store_mode() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let layer = RateLimitLayer::new(registry_of(store), policy("all").by_async(tenants().0));
        let keys = ["acme-1", "acme-2", "beta", "beta", "internal", "internal", "unknown", "revoked", "down"];
        assert_eq!(statuses(&layer, &keys).await, [200, 429, 200, 429, 200, 200, 400, 400, 503], "{mode:?}");
    }
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let open = policy("all").on_store_failure(FailureMode::Open);
    let layer = RateLimitLayer::new(registry_of(store), open.by_async(tenants().0));
    assert_eq!(statuses(&layer, &["acme-1", "acme-1"]).await, [200, 200]);
}

#[tokio::test]
async fn an_inherited_look_up_is_done_once() {
    let (tenants, count) = tenants();
    let layer = RateLimitLayer::new(registry(), policy("first").by_async(tenants))
        .and(policy("second"))
        .and(policy("third").by(Header::named("x-api-key")).on_missing(OnMissing::Shared))
        // A denial here would win over the result of a look-up.
        .and(Policy::gcra("fourth", Quota::per_minute(1).burst(9)).by(Global));
    assert_eq!(statuses(&layer, &["acme-1"]).await, [200]);
    assert_eq!(count.load(Ordering::Relaxed), 1);

    let (service, probe) = probed(&layer);
    assert_eq!(send(&service, grpc(&[("x-api-key", "down")])).await.header("grpc-status"), Some("14"));
    assert_eq!(send(&service, grpc(&[])).await.header("grpc-status"), Some("3"));
    assert_eq!(probe.calls(), 0);
}
