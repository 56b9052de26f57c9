//! Quotas that are looked up.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    CachedLookup, EventKind, Header, KeyError, LayerError, Limit, Lookup, Mode, PolicyExt as _, QuotaLookup,
    RateLimitLayer,
};

use super::{PRO, Setup, daily, setup};
use crate::probe::{probed, request, send};
use crate::support::mistake;

type Count = Arc<AtomicUsize>;

fn user(parts: &Parts) -> String {
    parts.headers["x-user"].to_str().unwrap().to_owned()
}

/// A directory of quotas, and how often it was asked.
fn contracts() -> (QuotaLookup, Count) {
    let count = Count::default();
    let asked = Arc::clone(&count);
    let look_up = QuotaLookup::new(move |parts: &Parts| {
        let (user, asked) = (user(parts), Arc::clone(&asked));
        async move {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            match &*user {
                "ada" => Ok(Some(PRO)),
                "wrong" => Ok(Some(Quota::per_hour(1))),
                "down" => Err(KeyError::server("the directory is down")),
                "slow" => std::future::pending().await,
                "panics" => panic!("the directory panics"),
                _ => Ok(None),
            }
        }
    });
    (look_up, count)
}

fn by_user(setup: &Setup, look_up: QuotaLookup) -> RateLimitLayer {
    setup.layer_of(limit_by_user(look_up))
}

fn limit_by_user(look_up: QuotaLookup) -> Limit {
    daily().by(Header::named("x-user")).quota_by_async(look_up)
}

/// The status and the figures of a response.
async fn answer(layer: &RateLimitLayer, user: &str) -> (u16, String, String) {
    let answer = send(&probed(layer).0, request(&[("x-user", user)])).await;
    let figure = |name| answer.header(name).unwrap_or_default().to_owned();
    (answer.status, figure("x-ratelimit-limit"), figure("x-ratelimit-remaining"))
}

fn figures(status: u16, limit: u64, remaining: u64) -> (u16, String, String) {
    (status, limit.to_string(), remaining.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_looked_up_once_a_minute() {
    let setup = setup();
    let (contracts, count) = contracts();
    let layer = by_user(&setup, contracts);
    for used in 1..=3 {
        assert_eq!(answer(&layer, "ada").await, figures(200, 5_000, 5_000 - used));
        assert_eq!(answer(&layer, "bob").await, figures(200, 100, 100 - used));
    }
    assert_eq!(count.load(Ordering::Relaxed), 2);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(answer(&layer, "ada").await, figures(200, 5_000, 4_996));
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert!(setup.refusals.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_time_and_the_number_of_results_can_be_set() {
    let setup = setup();
    let (contracts, count) = contracts();
    let layer =
        by_user(&setup, contracts.fresh_for(Duration::from_secs(5)).capacity(NonZeroUsize::new(2).unwrap()));
    for user in ["ada", "bob", "ada", "eve", "bob", "ada"] {
        answer(&layer, user).await;
    }
    assert_eq!(count.load(Ordering::Relaxed), 4, "the third user replaces the first");
    tokio::time::advance(Duration::from_secs(5)).await;
    answer(&layer, "ada").await;
    assert_eq!(count.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn concurrent_requests_share_a_look_up() {
    let setup = setup();
    let (contracts, count) = contracts();
    let layer = by_user(&setup, contracts);
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { answer(&layer, "ada").await })
        })
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap().1, "5000");
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_fails_leaves_the_quota_of_the_policy() {
    let setup = setup();
    let (contracts, count) = contracts();
    let layer = by_user(&setup, contracts).lookup_deadline(Duration::from_secs(2));
    assert_eq!(answer(&layer, "down").await, figures(200, 100, 99));
    assert_eq!(setup.refusals.take(), ["daily: the directory is down"]);
    assert_eq!(answer(&layer, "slow").await, figures(200, 100, 99));
    assert_eq!(setup.refusals.take(), ["daily: a look-up has no result within 2s"]);
    assert_eq!(answer(&layer, "wrong").await, figures(200, 100, 99));
    assert!(setup.refusals.take()[0].starts_with("daily 1/h: "));
    // A failure is not kept.
    assert_eq!(answer(&layer, "down").await, figures(200, 100, 98));
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn policies_with_known_quotas_decide_before_a_look_up() {
    let setup = setup();
    let (contracts, count) = contracts();
    let few = Policy::fixed_window("few", Quota::per_day(1));
    let layer = by_user(&setup, contracts.fresh_for(Duration::ZERO)).and(few);
    assert_eq!(answer(&layer, "ada").await.0, 200);
    for _ in 0..5 {
        assert_eq!(answer(&layer, "ada").await.0, 429);
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // What the first decision has charged is refunded if the second denies.
    let setup = super::setup();
    let (contracts, _) = self::contracts();
    let many = Policy::fixed_window("many", Quota::per_day(1_000));
    let layer = setup.layer_of(limit_by_user(contracts.fresh_for(Duration::ZERO)).cost(60)).and(many);
    assert_eq!(answer(&layer, "bob").await, figures(200, 100, 40));
    assert_eq!(answer(&layer, "bob").await, figures(429, 100, 40));
    let only_many = RateLimitLayer::new(
        Arc::clone(&setup.registry),
        Policy::fixed_window("many", Quota::per_day(1_000)).by(Header::named("x-user")),
    );
    assert_eq!(answer(&only_many, "bob").await, figures(200, 1_000, 998));
}

#[tokio::test]
async fn a_shadow_policy_with_a_looked_up_quota_never_rejects() {
    let setup = setup();
    let (contracts, _) = contracts();
    let layer = setup.layer_of(limit_by_user(contracts).cost(60).mode(Mode::Shadow));
    for _ in 0..3 {
        assert_eq!(answer(&layer, "bob").await.0, 200);
    }
}

#[tokio::test]
async fn requests_without_a_key_start_no_look_up() {
    let setup = setup();
    let (contracts, count) = contracts();
    let layer = by_user(&setup, contracts);
    let answer = send(&probed(&layer).0, request(&[])).await;
    assert_eq!((answer.status, count.load(Ordering::Relaxed)), (400, 0));
}

#[tokio::test]
async fn a_panic_of_a_look_up_reaches_one_request() {
    let setup = setup();
    let (contracts, _) = contracts();
    let layer = by_user(&setup, contracts);
    let requests: Vec<_> = (0..3)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { answer(&layer, "panics").await })
        })
        .collect();
    let mut panics = 0;
    for request in requests {
        match request.await {
            Ok(answer) => assert_eq!((answer.0, &*answer.1), (200, "100")),
            Err(error) => panics += u32::from(error.is_panic()),
        }
    }
    let failures = setup.refusals.take();
    // The third request has started another look-up.
    assert_eq!((panics, failures.len(), &*failures[0]), (2, 1, "daily: a look-up has panicked"));
}

/// A directory that finds accounts and their quotas by an API key.
fn accounts(count: &Count) -> impl portcullis_tower::AsyncKeyExtractor + use<> {
    let asked = Arc::clone(count);
    move |parts: &Parts| {
        let (user, asked) = (user(parts), Arc::clone(&asked));
        async move {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            match &*user {
                "down" => Err(KeyError::server("the directory is down")),
                "unknown" => Ok(Lookup::missing()),
                "ada" => Ok(Lookup::found("account", "ada").quota("daily", PRO)),
                "typo" => Ok(Lookup::found("account", "typo").quota("dayly", PRO)),
                "other" => Ok(Lookup::found("account", "other").quota("burst", PRO)),
                _ => Ok(Lookup::found("account", user)),
            }
        }
    }
}

#[tokio::test]
async fn a_look_up_tells_the_quota_with_the_key() {
    let (setup, count) = (setup(), Count::default());
    let burst = Policy::fixed_window("burst", Quota::per_hour(1_000));
    let layer = RateLimitLayer::new(
        Arc::clone(&setup.registry),
        daily()
            .by_async(accounts(&count))
            // What the look-up has found goes before it.
            .quota(|_| Some(Quota::per_day(50))),
    )
    .and(burst.by(Header::named("x-user")));
    assert_eq!(answer(&layer, "ada").await, figures(200, 1_000, 999), "the decisive one");
    let (service, _) = probed(&layer);
    let seen = send(&service, request(&[("x-user", "ada")])).await.seen.unwrap();
    assert_eq!(seen.remaining(), 998);
    assert_eq!(answer(&layer, "bob").await, figures(200, 50, 49));
    assert!(setup.refusals.take().is_empty());
    for user in ["typo", "other"] {
        assert_eq!(answer(&layer, user).await, figures(200, 50, 49));
        assert_eq!(setup.refusals.take().len(), 1);
    }
    assert_eq!(answer(&layer, "down").await.0, 503);
    assert_eq!(answer(&layer, "unknown").await.0, 400);
}

#[tokio::test]
async fn a_look_up_of_two_layers_tells_each_its_quota() {
    let (setup, count) = (setup(), Count::default());
    let weekly = Policy::fixed_window("weekly", Quota::per_week(70));
    let other = RateLimitLayer::new(Arc::clone(&setup.registry), weekly.by_async(accounts(&count)));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), daily().by_async(accounts(&count)));
    assert_eq!(answer(&layer, "ada").await.1, "5000");
    assert_eq!(answer(&other, "ada").await.1, "70");
    assert!(setup.refusals.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cached_look_ups_keep_keys_and_quotas() {
    let (setup, count) = (setup(), Count::default());
    let cached = CachedLookup::new(Header::named("x-user"), accounts(&count))
        .fresh_for(Duration::from_secs(10))
        .capacity(NonZeroUsize::new(100).unwrap())
        .deadline(Duration::from_secs(1));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), daily().by_async(cached));
    for used in 1..=5 {
        assert_eq!(answer(&layer, "ada").await, figures(200, 5_000, 5_000 - used));
        assert_eq!(answer(&layer, "bob").await, figures(200, 100, 100 - used));
    }
    assert_eq!(count.swap(0, Ordering::Relaxed), 2);
    // Neither a failure nor an identity that is unknown is kept.
    for _ in 0..2 {
        assert_eq!((answer(&layer, "down").await.0, answer(&layer, "unknown").await.0), (503, 400));
    }
    assert_eq!(count.swap(0, Ordering::Relaxed), 4);
    tokio::time::advance(Duration::from_secs(10)).await;
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { answer(&layer, "ada").await })
        })
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap().1, "5000");
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // Without a key nothing is looked up.
    assert_eq!(send(&probed(&layer).0, request(&[])).await.status, 400);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn one_look_up_finds_key_and_quota() {
    let (setup, count) = (setup(), Count::default());
    let both = daily().by_async(accounts(&count)).quota_by_async(contracts().0);
    assert!(matches!(mistake(&setup.registry, [both]), LayerError::TwoLookups { .. }));
    let both = limit_by_user(contracts().0).by_async(accounts(&count));
    assert!(matches!(mistake(&setup.registry, [both]), LayerError::TwoLookups { .. }));
    // The look-up of the key finds the quota as well.
    let layer = setup.layer_of(daily().by_async(accounts(&count)));
    assert_eq!(answer(&layer, "ada").await.1, "5000");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn one_client_waits_for_few_look_ups() {
    let setup = setup();
    setup.registry.max_waiting_requests(32);
    let layer = by_user(&setup, contracts().0);
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { answer(&layer, "slow").await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(answer(&layer, "slow").await.0, 503);
    assert_eq!(answer(&layer, "ada").await.0, 200);
    for request in waiting {
        assert_eq!(request.await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn a_look_up_may_name_a_policy_that_is_off() {
    let (setup, count) = (setup(), Count::default());
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(3));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), hourly.by_async(accounts(&count)))
        .and(Limit::new(daily()).mode(Mode::Off));
    assert_eq!(answer(&layer, "ada").await, figures(200, 3, 2));
    assert!(setup.refusals.take().is_empty());
}

#[tokio::test]
async fn too_many_waiting_look_ups_are_rejected() {
    let setup = setup();
    setup.registry.max_waiting_requests(0);
    let waiting = Count::default();
    let seen = Arc::clone(&waiting);
    setup.registry.observe(Arc::new(move |event: &portcullis_tower::Event<'_>| {
        seen.fetch_add(usize::from(matches!(event.kind, EventKind::TooManyWaiting)), Ordering::Relaxed);
    }));
    let layer = by_user(&setup, contracts().0);
    assert_eq!((answer(&layer, "ada").await.0, waiting.load(Ordering::Relaxed)), (503, 1));
}
