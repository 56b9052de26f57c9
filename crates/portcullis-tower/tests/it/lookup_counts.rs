//! The figures of look-ups: what caches save, and what fails.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    AsyncKeyExtractor, CachedLookup, Header, KeyError, Lookup, PolicyExt as _, QuotaLookup, RateLimitLayer,
    Registry,
};

use crate::probe::{probed, request, send};
use crate::support::registry;

/// Hits, look-ups, joined, failed, timed out, kept results.
fn figures(registry: &Registry) -> [u64; 6] {
    let names =
        ["lookup_hits", "lookups", "lookups_joined", "lookups_failed", "lookups_timed_out", "lookup_entries"];
    let mut figures = [0; 6];
    registry.figures(&mut |figure| {
        figures[names.iter().position(|name| *name == figure.name).unwrap()] = figure.value;
    });
    figures
}

fn policy(name: &'static str) -> Policy {
    let quota = Quota::per_hour(1_000);
    Policy::fixed_window(name, quota).caller_quotas(quota, Quota::per_hour(9_000))
}

fn user(parts: &Parts) -> String {
    parts.headers.get("x-user").map(|user| user.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// Looks up a user, in 10 ms.
fn accounts() -> CachedLookup {
    CachedLookup::new(Header::named("x-user"), |parts: &Parts| {
        let user = user(parts);
        async move {
            match user.as_str() {
                "slow" => std::future::pending().await,
                "buggy" => panic!("a bug in a look-up"),
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            match user.as_str() {
                "down" => Err(KeyError::server("the directory is down")),
                "revoked" => Err(KeyError::client("the key is revoked")),
                "unknown" => Ok(Lookup::missing()),
                _ => Ok(Lookup::found("user", user)),
            }
        }
    })
}

fn layer(registry: &Arc<Registry>, accounts: impl AsyncKeyExtractor) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), policy("all").by_async(accounts))
}

async fn status(layer: &RateLimitLayer, user: &str) -> u16 {
    send(&probed(layer).0, request(&[("x-user", user)])).await.status
}

#[tokio::test(start_paused = true)]
async fn requests_count_as_hits_look_ups_or_joined() {
    let registry = registry();
    let layer = layer(&registry, accounts());
    assert_eq!(figures(&registry), [0; 6]);
    let together: Vec<_> = (0..5)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { status(&layer, "ada").await })
        })
        .collect();
    for request in together {
        assert_eq!(request.await.unwrap(), 200);
    }
    assert_eq!(figures(&registry), [0, 1, 4, 0, 0, 1]);
    for _ in 0..7 {
        assert_eq!(status(&layer, "ada").await, 200);
    }
    assert_eq!(figures(&registry), [7, 1, 4, 0, 0, 1]);
    assert_eq!(status(&layer, "bob").await, 200);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(status(&layer, "ada").await, 200);
    assert_eq!(figures(&registry), [7, 3, 4, 0, 0, 2], "results that are too old are looked up again");
    // Without a user nothing is looked up.
    assert_eq!(send(&probed(&layer).0, request(&[])).await.status, 400);
    assert_eq!(figures(&registry), [7, 3, 4, 0, 0, 2]);
    drop(layer);
    assert_eq!(figures(&registry), [7, 3, 4, 0, 0, 0], "the counts stay, the results go with the cache");
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_server_and_late_look_ups_are_counted() {
    let registry = registry();
    let layer = layer(&registry, accounts());
    for _ in 0..2 {
        assert_eq!(status(&layer, "down").await, 503);
    }
    // The fault of a client is no failure of a look-up. Neither result is kept.
    assert_eq!([status(&layer, "revoked").await, status(&layer, "unknown").await], [400, 400]);
    assert_eq!(figures(&registry), [0, 4, 0, 2, 0, 0]);
    let late: Vec<_> = (0..3)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { status(&layer, "slow").await })
        })
        .collect();
    for request in late {
        assert_eq!(request.await.unwrap(), 503);
    }
    assert_eq!(figures(&registry), [0, 5, 2, 2, 3, 0]);
    let panicking = tokio::spawn(async move { status(&layer, "buggy").await });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(figures(&registry), [0, 6, 2, 3, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn kept_results_are_counted_up_to_the_capacity() {
    let registry = registry();
    let layer = layer(&registry, accounts().capacity(NonZeroUsize::new(2).unwrap()));
    for user in ["ada", "bob", "eve", "ada", "eve"] {
        assert_eq!(status(&layer, user).await, 200);
    }
    assert_eq!(figures(&registry), [1, 4, 0, 0, 0, 2]);
}

#[tokio::test(start_paused = true)]
async fn look_ups_of_quotas_are_counted_too() {
    let registry = registry();
    let contracts = QuotaLookup::new(|parts: &Parts| {
        let user = user(parts);
        async move {
            match user.as_str() {
                "slow" => std::future::pending().await,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            if user == "down" { Err(KeyError::server("no")) } else { Ok(Some(Quota::per_hour(2_000))) }
        }
    });
    let by_user = |name| {
        let limit = policy(name).by(Header::named("x-user")).quota_by_async(contracts.clone());
        RateLimitLayer::new(Arc::clone(&registry), limit)
    };
    let layer = by_user("first");
    let (one, other) = tokio::join!(status(&layer, "ada"), status(&layer, "ada"));
    assert_eq!([one, other], [200, 200]);
    assert_eq!(figures(&registry), [0, 1, 1, 0, 0, 1]);
    // The other layer shares what is kept, and the counts.
    let second = by_user("second");
    for user in ["ada", "down", "slow"] {
        assert_eq!(status(&second, user).await, 200, "the policy's own quota applies");
    }
    assert_eq!(figures(&registry), [1, 3, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_shared_look_up_counts_for_the_first_limiter() {
    let (first, second) = (registry(), registry());
    let accounts: Arc<dyn AsyncKeyExtractor> = Arc::new(accounts());
    let layers = [layer(&first, Arc::clone(&accounts)), layer(&second, accounts)];
    for layer in [&layers[0], &layers[1], &layers[1]] {
        assert_eq!(status(layer, "ada").await, 200);
    }
    assert_eq!((figures(&first), figures(&second)), ([2, 1, 0, 0, 0, 1], [0; 6]));
    // What the deadline of a layer ends is counted by its own limiter, also without a cache.
    let endless = |_: &Parts| std::future::pending::<Result<Lookup, KeyError>>();
    assert_eq!(status(&layer(&second, endless), "ada").await, 503);
    assert_eq!(figures(&second), [0, 0, 0, 0, 1, 0]);
}

#[test]
fn requests_without_look_ups_count_nothing() {
    let registry = registry();
    let layer = RateLimitLayer::new(Arc::clone(&registry), policy("all").by(Header::named("x-user")));
    assert_eq!(crate::support::block_on(status(&layer, "ada")), 200);
    assert_eq!(figures(&registry), [0; 6]);
}
