//! Look-ups of keys: what the cache saves, and what fails.

use std::sync::Arc;
use std::thread;

use http::request::Parts;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{CachedLookup, Header, KeyError, Lookup, PolicyExt as _, RateLimitLayer, Registry};

use crate::support::{Recorded, from_user, send};

const NAMES: [&str; 2] = ["portcullis_lookup", "portcullis_lookups"];

fn layer(registry: &Arc<Registry>) -> RateLimitLayer {
    let accounts = CachedLookup::new(Header::named("x-user"), |parts: &Parts| {
        let user = parts.headers["x-user"].clone();
        async move {
            match user.as_bytes() {
                b"down" => Err(KeyError::server("the directory is down")),
                b"slow" => std::future::pending().await,
                user => Ok(Lookup::found("user", user)),
            }
        }
    });
    let policy = Policy::fixed_window("all", Quota::per_week(1_000_000));
    RateLimitLayer::new(Arc::clone(registry), policy.by_async(accounts))
}

async fn send_all(layer: &RateLimitLayer, users: &[(&str, u16)]) {
    for (user, status) in users {
        assert_eq!(send(layer, from_user(user)).await, *status, "{user}");
    }
}

fn expected(series: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
    series.iter().map(|(name, value)| (format!("portcullis_{name}"), *value)).collect()
}

#[tokio::test(start_paused = true)]
async fn look_ups_of_several_limiters_are_added_up() {
    let (first, recorded) = Recorded::registry(100);
    let (second, _) = Recorded::registry(100);
    let layers = [layer(&first), layer(&second)];
    let zero = recorded.series();
    assert_eq!(zero.keys().filter(|name| name.starts_with(NAMES[0])).count(), 6, "they begin at zero");
    send_all(&layers[0], &[("ada", 200), ("ada", 200), ("bob", 200), ("down", 503), ("slow", 503)]).await;
    send_all(&layers[1], &[("ada", 200), ("ada", 200), ("ada", 200)]).await;
    assert!(recorded.nonzero(&NAMES).is_empty(), "published by a refresh");
    for _ in 0..3 {
        recorded.metrics.refresh(&first);
        recorded.metrics.refresh(&second);
    }
    let both = [
        ("lookup_hits_total", 1 + 2),
        ("lookups_total", 4 + 1),
        ("lookups_failed_total", 1),
        ("lookups_timed_out_total", 1),
        ("lookup_entries", 2 + 1),
    ];
    assert_eq!(recorded.nonzero(&NAMES), expected(&both));
    send_all(&layers[0], &[("bob", 200)]).await;
    let [_, other] = layers;
    drop((second, other));
    recorded.metrics.refresh(&first);
    let first_alone = [
        ("lookup_hits_total", 1 + 2 + 1),
        ("lookups_total", 4 + 1),
        ("lookups_failed_total", 1),
        ("lookups_timed_out_total", 1),
        ("lookup_entries", 2),
    ];
    assert_eq!(recorded.nonzero(&NAMES), expected(&first_alone));
}

#[test]
fn each_request_counts_once_with_threads_at_once() {
    let (registry, recorded) = Recorded::registry(1_000);
    let layer = layer(&registry);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    for number in 0..500 {
                        assert_eq!(send(&layer, from_user(&format!("user {}", number % 50))).await, 200);
                        recorded.metrics.refresh(&registry);
                    }
                });
            });
        }
    });
    recorded.metrics.refresh(&registry);
    let counted = recorded.nonzero(&NAMES);
    let of = |name: &str| counted.get(&format!("portcullis_{name}")).copied().unwrap_or_default();
    let (hits, joined) = (of("lookup_hits_total"), of("lookups_joined_total"));
    assert_eq!(hits + joined, 4 * 500 - 50, "{counted:?}");
    assert_eq!((of("lookups_total"), of("lookup_entries")), (50, 50));
}
