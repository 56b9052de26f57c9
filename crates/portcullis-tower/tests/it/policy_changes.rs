//! Policies that are replaced while their layers run, and names that are forgotten.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::{FailureMode, Gcra, ManualClock, Policy, PolicyName, PolicySettings, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    Charge, Global, Header, LayerError, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry,
};
use tower::{Layer as _, ServiceExt as _};

use crate::probe::{Probe, probed, request, send};
use crate::support::{Mode, TestStore, block_on, registry, registry_of};

fn on_memory() -> (Arc<Registry>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(Registry::new(Arc::new(store), Secret::published())), clock)
}

fn global(registry: &Arc<Registry>, policy: Policy) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), policy.by(Global)).with_charge()
}

#[tokio::test]
async fn all_services_of_a_layer_have_the_new_limit_and_headers() {
    let (registry, _) = on_memory();
    let layer = global(&registry, Policy::fixed_window("p", Quota::per_day(100)))
        .headers(RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT);
    let services = [layer.layer(Probe::default()), layer.layer(Probe::default())];
    let other = global(&registry, Policy::fixed_window("p", Quota::per_day(100))).layer(Probe::default());
    let mut used = 0;
    for limit in [100, 50, 200, 100] {
        let former = registry.set_policy(Policy::fixed_window("p", Quota::per_day(limit))).unwrap();
        assert_eq!(former.name().as_str(), "p");
        for service in &services {
            used += 1;
            let answer = send(&service.clone(), request(&[])).await;
            assert_eq!(answer.header("ratelimit-policy").unwrap(), format!("\"p\";q={limit};w=86400"));
            assert_eq!(answer.header("ratelimit").unwrap(), format!("\"p\";r={}", limit - used));
            assert_eq!(answer.header("x-ratelimit-limit").unwrap(), limit.to_string());
        }
        used += 1;
        let answer = send(&other, request(&[])).await;
        assert_eq!(answer.header("x-ratelimit-remaining").unwrap(), (limit - used).to_string());
    }
}

#[tokio::test]
async fn states_survive_a_change_of_every_algorithm() {
    type Make = fn(u64) -> Policy;
    let algorithms: [Make; 5] = [
        |limit| Policy::fixed_window("p", Quota::per_hour(limit)),
        |limit| Policy::sliding_window("p", Quota::per_hour(limit)),
        |limit| Policy::sliding_log("p", Quota::per_hour(limit)),
        |burst| Policy::token_bucket("p", Quota::per_hour(10).burst(burst)),
        |burst| Policy::gcra("p", Quota::per_hour(10).burst(burst)),
    ];
    for policy in algorithms {
        let (registry, clock) = on_memory();
        let (service, _) = probed(&global(&registry, policy(10)));
        for _ in 0..10 {
            assert_eq!(send(&service, request(&[])).await.status, 200);
        }
        assert_eq!(send(&service, request(&[])).await.status, 429);
        // More is available at once, and what was used counts.
        registry.set_policy(policy(20)).unwrap();
        for _ in 0..10 {
            assert_eq!(send(&service, request(&[])).await.status, 200);
        }
        assert_eq!(send(&service, request(&[])).await.status, 429);
        // Less denies at once, and nobody is locked out for longer than two periods.
        registry.set_policy(policy(5)).unwrap();
        assert_eq!(send(&service, request(&[])).await.status, 429);
        clock.advance(Duration::from_hours(2));
        for status in [200, 200, 200, 200, 200, 429] {
            assert_eq!(send(&service, request(&[])).await.status, status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_longest_wait_is_added_and_removed() {
    let (registry, clock) = on_memory();
    let rejects = Policy::gcra("p", Quota::per_second(1));
    let (service, _) = probed(&global(&registry, rejects.clone()));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);
    // The next request reserves the slot in a second, and one more does not fit into the wait.
    registry.set_policy(rejects.clone().wait_at_most(Duration::from_secs(1))).unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    assert_eq!(send(&service, request(&[])).await.status, 429);
    // What was reserved counts.
    registry.set_policy(rejects).unwrap();
    for status in [429, 429, 200, 429] {
        assert_eq!(send(&service, request(&[])).await.status, status);
        clock.advance(Duration::from_millis(999 + u64::from(status == 429)));
    }
}

#[tokio::test]
async fn charges_under_a_former_quota_are_corrected_under_the_new_one() {
    let (registry, _) = on_memory();
    let policy = |burst| Policy::token_bucket("p", Quota::per_hour(100).burst(burst));
    let changer = Arc::clone(&registry);
    let layer = global(&registry, policy(10));
    let service = layer.layer(tower::service_fn(move |request: Request<String>| {
        let registry = Arc::clone(&changer);
        async move {
            let charge = request.extensions().get::<Charge>().unwrap();
            assert_eq!(charge.decision().limit(), 10);
            registry.set_policy(policy(100)).unwrap();
            // A charge under the former quota would not fit, and cut the level.
            let more = charge.charge_more(80).await.unwrap();
            assert!(more.is_allowed());
            assert_eq!((more.limit(), more.remaining()), (100, 19));
            let settled = charge.settle(11).await.unwrap();
            assert_eq!(settled.decision.remaining(), 89);
            Ok::<_, std::convert::Infallible>(Response::new(String::new()))
        }
    }));
    let response = service.oneshot(request(&[])).await.unwrap();
    // The request shows its charge as it is now.
    assert_eq!(response.headers()["x-ratelimit-limit"], "100");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "89");
}

#[tokio::test]
async fn a_request_keeps_what_it_began_with() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Later);
    let registry = registry_of(Arc::clone(&store));
    let policy = |burst| Policy::gcra("p", Quota::per_minute(1).burst(burst));
    let layer = global(&registry, policy(3)).headers(RateLimitHeaders::IETF);
    let service = layer.layer(Probe::default());
    let mut early = pin!(service.clone().oneshot(request(&[])));
    assert!(matches!(early.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    registry.set_policy(policy(9)).unwrap();
    let response = early.await.unwrap();
    assert_eq!(response.headers()["ratelimit-policy"], r#""p";q=3;w=180"#);
    let answer = send(&service, request(&[])).await;
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""p";q=9;w=540"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""p";r=7"#));
}

#[tokio::test(start_paused = true)]
async fn requests_in_a_queue_keep_their_slots() {
    let (registry, clock) = on_memory();
    let policy = |limit| Policy::leaky_bucket("p", Quota::per_second(limit).burst(10));
    let service = global(&registry, policy(1)).layer(Probe::default());
    let start = tokio::time::Instant::now();
    let mut requests = tokio::task::JoinSet::new();
    for slot in 0..3 {
        let service = service.clone();
        requests.spawn(async move {
            assert_eq!(send(&service, request(&[])).await.status, 200);
            (slot, start.elapsed().as_millis())
        });
        tokio::task::yield_now().await;
    }
    let former = registry.set_policy(policy(4)).unwrap();
    assert_eq!(former, policy(1));
    let mut slots = requests.join_all().await;
    slots.sort_unstable();
    assert_eq!(slots, [(0, 0), (1, 1_000), (2, 2_000)]);
    // The queue drains three seconds after its first request, as before. Then requests leave at the new rate.
    clock.advance(Duration::from_secs(3));
    let start = tokio::time::Instant::now();
    for slot in 0..3 {
        assert_eq!(send(&service, request(&[])).await.status, 200);
        assert_eq!(start.elapsed().as_millis(), [0, 250, 750][slot]);
    }
}

#[tokio::test]
async fn the_failure_mode_changes_too() {
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let policy = Policy::gcra("p", Quota::per_minute(1));
    let (service, _) = probed(&global(&registry, policy.clone().on_store_failure(FailureMode::Closed)));
    store.set(Mode::Down);
    assert_eq!(send(&service, request(&[])).await.status, 503);
    registry.set_policy(policy.on_store_failure(FailureMode::Open)).unwrap();
    assert_eq!(send(&service, request(&[])).await.status, 200);
}

#[tokio::test]
async fn a_change_that_is_refused_changes_nothing() {
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let (service, _) = probed(&global(&registry, Policy::fixed_window("p", Quota::per_hour(5))));
    let longer = registry.set_policy(Policy::fixed_window("p", Quota::per_day(5))).unwrap_err();
    assert_eq!(
        longer.to_string(),
        "policy p cannot change from fixed_window 5/h to fixed_window 5/d, because the states of its keys could not follow: \
         change only the limit or the burst, or use another name"
    );
    let unknown = registry.set_policy(Policy::fixed_window("q", Quota::per_hour(5))).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no policy q to change: no layer of the limiter has it, and no handler has checked it (`Limiter::register` makes it \
         known from the start)"
    );
    store.is_full.store(true, Ordering::Relaxed);
    let refused = registry.set_policy(Policy::fixed_window("p", Quota::per_hour(6))).unwrap_err();
    assert!(matches!(refused, LayerError::Refused { .. }));
    let answer = send(&service, request(&[])).await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("5"));
}

#[tokio::test]
async fn an_outage_goes_on_for_the_log_after_a_change() {
    let (log, _guard) = crate::log::log();
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let policy =
        |burst| Policy::gcra("p", Quota::per_minute(1).burst(burst)).on_store_failure(FailureMode::Open);
    let (service, _) = probed(&global(&registry, policy(1)));
    store.set(Mode::Down);
    for burst in [1, 2, 3] {
        registry.set_policy(policy(burst)).unwrap();
        assert_eq!(send(&service, request(&[])).await.status, 200);
    }
    let failures = log.lines().iter().filter(|line| line.contains("cannot answer")).count();
    assert_eq!(failures, 1);
}

#[test]
fn ten_thousand_layers_one_after_another_leave_nothing() {
    let registry = registry();
    let empty = format!("{registry:?}");
    for number in 0..10_000 {
        let policy = |what: &str| {
            Policy::try_new(
                &format!("{what} {number}"),
                Gcra::new(Quota::per_second(1)),
                PolicySettings::default(),
            )
            .unwrap()
        };
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy("tenant").by(Header::named("x-user")))
            .with_charge();
        let layer = layer.and(policy("total").by(Global));
        let service = layer.layer(Probe::default());
        drop(layer);
        let clone = service.clone();
        drop(service);
        assert_eq!(registry.policy(policy("total").name()), Some(policy("total")));
        drop(clone);
    }
    assert_eq!(format!("{registry:?}"), empty);
}

#[tokio::test]
async fn a_name_lives_as_long_as_a_request_with_it() {
    let registry = registry();
    let name = PolicyName::literal("p");
    let policy = Policy::gcra("p", Quota::per_minute(1).burst(9));
    let service =
        global(&registry, policy.clone()).layer(tower::service_fn(async |request: Request<String>| {
            let charge = request.extensions().get::<Charge>().unwrap().clone();
            let mut response = Response::new(String::new());
            response.extensions_mut().insert(charge);
            Ok::<_, std::convert::Infallible>(response)
        }));
    let response = service.clone().oneshot(request(&[])).await.unwrap();
    let charge = response.extensions().get::<Charge>().unwrap().clone();
    drop(response);
    drop(service);
    assert_eq!(registry.policy(&name), Some(policy.clone()));
    charge.refund().await.unwrap();
    drop(charge);
    assert_eq!(registry.policy(&name), None);
}

#[test]
fn requests_always_see_one_whole_policy() {
    let (registry, _) = on_memory();
    let policy = |limit| Policy::fixed_window("p", Quota::per_day(limit));
    let layer =
        global(&registry, policy(10_000)).headers(RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT);
    let (newest, service) = (AtomicU64::new(10_000), layer.layer(Probe::default()));
    let check = async || {
        let least = newest.load(Ordering::Acquire);
        let answer = send(&service, request(&[])).await;
        let limit: u64 = answer.header("x-ratelimit-limit").unwrap().parse().unwrap();
        assert!(limit >= least, "{limit} after {least}");
        assert_eq!(answer.header("ratelimit-policy").unwrap(), format!("\"p\";q={limit};w=86400"));
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                block_on(async {
                    while newest.load(Ordering::Acquire) < 10_200 {
                        check().await;
                    }
                });
            });
        }
        for limit in 10_001..=10_200 {
            registry.set_policy(policy(limit)).unwrap();
            newest.store(limit, Ordering::Release);
            thread::yield_now();
        }
    });
    block_on(check());
}
