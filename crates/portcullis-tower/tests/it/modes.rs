//! Policies that are off, in shadow, enforced for a share of their keys, or enforced.

mod sample;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use http::Request;
use portcullis_core::{Policy, PolicyName, Quota};
use portcullis_tower::{
    Bearer, ClientIp, Cookie, Event, EventKind, Extension, Global, Header, KeyError, KeyExtractor,
    LayerError, Limit, Lookup, Mode, OnMissing, Percent, PolicyExt as _, Query, RateLimit, RateLimitHeaders,
    RateLimitLayer, Registry, Route,
};
use tower::Layer as _;

use crate::log::log;
use crate::probe::{Answer, Probe, probed, request, send};
use crate::support::{TestStore, block_on, mistake, registry, registry_of};

#[derive(Clone)]
struct User(u32);

impl AsRef<[u8]> for User {
    fn as_ref(&self) -> &[u8] {
        // Decimal digits of a known length.
        DIGITS[self.0 as usize].as_bytes()
    }
}

static DIGITS: std::sync::LazyLock<Vec<String>> =
    std::sync::LazyLock::new(|| (0..1_000).map(|number| format!("{number:04}")).collect());

const TENTH: Percent = Percent::new(10);

fn policy(name: &'static str) -> Policy {
    Policy::fixed_window(name, Quota::per_day(1))
}

fn by_user(name: &'static str) -> Limit {
    policy(name).by(Extension::<User>::new())
}

fn layer(registry: &Arc<Registry>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), limit)
}

fn from(user: u32) -> Request<String> {
    let mut request = request(&[]);
    request.extensions_mut().insert(User(user));
    request
}

/// The users that are limited after one request.
async fn limited(service: &RateLimit<Probe>, users: std::ops::Range<u32>) -> Vec<u32> {
    let mut limited = Vec::new();
    for user in users {
        send(service, from(user)).await;
        match send(service, from(user)).await.status {
            200 => {}
            429 => limited.push(user),
            status => panic!("user {user} gets {status}"),
        }
    }
    limited
}

#[tokio::test]
async fn a_share_of_the_users_is_limited_and_it_grows() {
    let registry = registry();
    let service = layer(&registry, by_user("planned").enforce(TENTH)).layer(Probe::default());
    let mut before = limited(&service, 0..300).await;
    assert!((12..=50).contains(&before.len()), "{} of 300", before.len());
    for percent in [20, 50, 100] {
        registry.set_mode(&PolicyName::literal("planned"), Mode::Percent(Percent::new(percent))).unwrap();
        let now = limited(&service, 0..300).await;
        assert!(before.iter().all(|user| now.contains(user)) && now.len() > before.len());
        before = now;
    }
    assert_eq!(before.len(), 300);
}

#[tokio::test]
async fn users_beyond_the_share_are_in_shadow() {
    let registry = registry();
    let rejected = Arc::new(Mutex::new(HashMap::<String, (u32, u32)>::new()));
    let counts = Arc::clone(&rejected);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        let mut counts = counts.lock().unwrap();
        match event.kind {
            EventKind::ShadowWouldReject { decision } => {
                counts.entry(decision.policy().to_string()).or_default().0 += 1;
            }
            EventKind::Rejected { decisions, .. } => {
                for decision in decisions.iter().filter(|decision| !decision.is_allowed()) {
                    counts.entry(decision.policy().to_string()).or_default().1 += 1;
                }
            }
            _ => {}
        }
    }));
    let layer = layer(&registry, by_user("one").enforce(TENTH))
        .and(Limit::new(policy("two")).enforce(Percent::new(50)));
    let service = layer.headers(RateLimitHeaders::IETF | RateLimitHeaders::SHADOW).layer(Probe::default());
    for user in 0..200 {
        let first = send(&service, from(user)).await;
        let (one, two) = (listed(&first, "one"), listed(&first, "two"));
        let second = send(&service, from(user)).await;
        assert_eq!(second.status, if one || two { 429 } else { 200 });
        if !one && !two {
            assert_eq!(second.header("x-ratelimit-shadow"), Some(r#""one", "two""#));
            assert_eq!(second.header("ratelimit"), None);
        }
    }
    let counts = rejected.lock().unwrap();
    let (one, two) = (counts["one"], counts["two"]);
    assert!(one.0 > 0 && two.0 == one.0, "what one policy rejects is no shadow of the other: {counts:?}");
    assert!(one.1 > 0 && two.1 > one.1, "{counts:?}");
}

/// Whether `RateLimit-Policy` lists a policy.
fn listed(answer: &Answer, policy: &str) -> bool {
    answer.header("ratelimit-policy").is_some_and(|list| list.contains(&format!("{policy:?}")))
}

#[tokio::test]
async fn a_policy_that_is_off_is_not_checked() {
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let layer = layer(&registry, policy("off").by(Header::named("x-user")).mode(Mode::Off));
    let (alone, _) = probed(&layer);
    for _ in 0..3 {
        // Not even the identity matters.
        let answer = send(&alone, request(&[])).await;
        assert_eq!((answer.status, answer.all_headers()), (200, vec![]));
    }
    assert_eq!(store.asked.load(Ordering::Relaxed), 0);

    let (both, _) = probed(&layer.and(policy("on").by(Global)));
    let answer = send(&both, request(&[])).await;
    assert_eq!(answer.seen.unwrap().policy().as_str(), "on");
    assert_eq!(send(&both, request(&[])).await.status, 429);
    assert_eq!(store.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_look_up_is_not_started_for_a_policy_that_is_off() {
    let registry = registry();
    let looked_up = |_: &http::request::Parts| async { Ok(Lookup::found("tenant", "acme")) };
    let layer = layer(&registry, policy("on").by(Global));
    let layer = layer.and(policy("off").by_async(looked_up)).and(policy("last"));
    let (service, _) = probed(&layer);
    for (off, last, expected) in [
        (Mode::Off, Mode::Off, &["on"][..]),
        (Mode::Off, Mode::Enforce, &["on", "last"]),
        (Mode::Enforce, Mode::Off, &["on", "off"]),
    ] {
        registry.set_mode(&PolicyName::literal("off"), off).unwrap();
        registry.set_mode(&PolicyName::literal("last"), last).unwrap();
        registry.set_policy(Policy::fixed_window("on", Quota::per_day(1_000))).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let names = Arc::clone(&seen);
        registry.observe(Arc::new(move |event: &Event<'_>| {
            *names.lock().unwrap() = event.policies.names().map(ToString::to_string).collect();
        }));
        assert_eq!(send(&service, request(&[])).await.status, 200);
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn a_mode_that_is_set_applies_to_all_layers_at_once() {
    let registry = registry();
    let name = PolicyName::literal("shared");
    let limits = [by_user("shared"), by_user("shared").shadow(), by_user("shared").mode(Mode::Off)];
    let services = limits.map(|limit| layer(&registry, limit).layer(Probe::default()));
    for (mode, statuses) in [
        (None, [429, 200, 200]),
        (Some(Mode::Shadow), [200, 200, 200]),
        (Some(Mode::Enforce), [429, 429, 429]),
        (Some(Mode::Off), [200, 200, 200]),
        (Some(Mode::Percent(Percent::ALL)), [429, 429, 429]),
        (Some(Mode::Percent(Percent::ZERO)), [200, 200, 200]),
        (Some(Mode::ShadowPercent(Percent::ALL)), [200, 200, 200]),
    ] {
        if let Some(mode) = mode {
            registry.set_mode(&name, mode).unwrap();
        }
        assert_eq!(registry.mode(&name), mode);
        send(&services[0], from(7)).await;
        for (service, status) in services.iter().zip(statuses) {
            // A clone, and a clone of a clone that was called, have the mode as well.
            let mut called = service.clone();
            for _ in 0..2 {
                assert_eq!(send(&called, from(7)).await.status, status, "{mode:?}");
                called = called.clone();
            }
        }
    }
    // It applies to a layer that is built later, and to the clone of a layer.
    let later = layer(&registry, by_user("shared")).layer(Probe::default());
    assert_eq!(send(&later, from(7)).await.status, 200);
}

#[tokio::test]
async fn a_request_without_an_identity_passes_below_all_keys() {
    let registry = registry();
    let name = PolicyName::literal("planned");
    let service =
        layer(&registry, by_user("planned").enforce(Percent::permille(999))).layer(Probe::default());
    assert_eq!(send(&service, request(&[])).await.status, 200);
    registry.set_mode(&name, Mode::Percent(Percent::ALL)).unwrap();
    assert_eq!(send(&service, request(&[])).await.status, 400);

    // The key that requests without an identity share is in the share like any other.
    let limit = by_user("other").on_missing(OnMissing::Shared).enforce(Percent::ALL);
    let (service, _) = probed(&layer(&registry, limit));
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);
}

#[test]
fn a_share_of_keys_that_clients_choose_is_an_error() {
    let chosen: [Box<dyn KeyExtractor>; 8] = [
        Box::new(Header::named("x-api-key")),
        Box::new(Query::named("key")),
        Box::new(Cookie::named("sid")),
        Box::new(Bearer),
        Box::new(Header::named("x-api-key").credential("ApiKey")),
        Box::new(Query::named("key").and(Extension::<User>::new())),
        Box::new(Extension::<User>::new().or(Header::named("x-user"))),
        Box::new(Header::named("x-user").or(Extension::<User>::new()).and(Route::http_method())),
    ];
    for key in chosen {
        let registry = registry();
        let limit = policy("p").by(key);
        let _layer = layer(&registry, limit.clone());
        let refused = mistake(&registry, [limit.clone().mode(Mode::Percent(TENTH))]);
        assert_eq!(refused, LayerError::UnverifiedKey { policy: PolicyName::literal("p") });
        assert!(refused.to_string().contains("policy p") && refused.to_string().contains("use a key that"));
        let refused = registry.set_mode(&PolicyName::literal("p"), Mode::Percent(TENTH));
        assert!(matches!(refused, Err(LayerError::UnverifiedKey { .. })));
        for mode in [Mode::Off, Mode::Shadow, Mode::ShadowPercent(TENTH), Mode::Enforce] {
            registry.set_mode(&PolicyName::literal("p"), mode).unwrap();
            let _ = RateLimitLayer::try_new(Arc::clone(&registry), [limit.clone().mode(mode)]).unwrap();
        }
    }
    let determined: [Box<dyn KeyExtractor>; 3] = [
        Box::new(Extension::<User>::new()),
        Box::new(Extension::<User>::new().and(Header::named("x-device"))),
        Box::new(Global),
    ];
    for key in determined {
        let registry = registry();
        let _layer = layer(&registry, policy("p").by(key).enforce(TENTH));
        registry.set_mode(&PolicyName::literal("p"), Mode::Percent(TENTH)).unwrap();
    }
}

#[test]
#[should_panic(expected = "policy p cannot be enforced for a share of its keys")]
fn a_key_that_clients_choose_panics_in_place_of_another() {
    let _ = layer(&registry(), by_user("p").enforce(TENTH).by(Header::named("x-user")));
}

#[test]
fn a_policy_inherits_a_key_and_not_a_mode() {
    let registry = registry();
    let one = || layer(&registry, by_user("one").enforce(TENTH).by(Global));
    let chosen = one().and(policy("two").by(Header::named("x-user")));
    assert!(registry.set_mode(&PolicyName::literal("one"), Mode::Percent(TENTH)).is_ok());
    assert!(registry.set_mode(&PolicyName::literal("two"), Mode::Percent(TENTH)).is_err());
    drop(chosen);
    let _layer = one().and(policy("two"));
    assert!(registry.set_mode(&PolicyName::literal("two"), Mode::Percent(TENTH)).is_ok());
}

#[tokio::test]
async fn a_later_layer_with_chosen_keys_keeps_its_own_mode() {
    let registry = registry();
    let _first = layer(&registry, by_user("p"));
    registry.set_mode(&PolicyName::literal("p"), Mode::Percent(Percent::ZERO)).unwrap();
    let later = layer(&registry, policy("p").by(Header::named("x-user")));
    let (log, _guard) = log();
    let (service, _) = probed(&later);
    for status in [200, 429] {
        assert_eq!(send(&service, request(&[("x-user", "ada")])).await.status, status);
    }
    let lines = log.lines();
    assert!(
        lines.len() == 1 && lines[0].ends_with("it keeps its own mode code=PC108 policy=p times=1"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_layer_that_is_extended_after_its_use_has_the_modes() {
    let registry = registry();
    let _two = layer(&registry, policy("two").by(Global));
    registry.set_mode(&PolicyName::literal("two"), Mode::Off).unwrap();
    let one = layer(&registry, Policy::fixed_window("one", Quota::per_day(9)).by(Global));
    let (service, _) = probed(&one);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    drop(service);
    let (service, _) = probed(&one.and(policy("two")));
    for _ in 0..2 {
        assert_eq!(send(&service, request(&[])).await.status, 200);
    }
}

#[tokio::test]
async fn preflights_are_counted_for_the_share_alone() {
    let registry = registry();
    let service = layer(&registry, by_user("p").enforce(Percent::new(50))).layer(Probe::default());
    for user in 0..40 {
        let mut preflight = from(user);
        *preflight.method_mut() = http::Method::OPTIONS;
        preflight.headers_mut().insert("origin", "https://example.com".parse().unwrap());
        preflight.headers_mut().insert("access-control-request-method", "GET".parse().unwrap());
        let is_counted = send(&service, preflight).await.seen.is_some();
        let is_limited = send(&service, from(user)).await.seen.is_some();
        assert_eq!(is_counted, is_limited);
    }
}

#[tokio::test]
async fn guesses_are_counted_for_the_share_alone() {
    let registry = registry();
    let by_address = policy("address").by(ClientIp::peer()).enforce(Percent::new(50));
    let layer = layer(&registry, by_address).and(policy("token").by(Bearer));
    let service = layer.layer(Probe::default());
    let mut limited = 0;
    for client in 0..40 {
        let guess = || {
            let mut guess = request(&[]);
            guess.extensions_mut().insert(SocketAddr::from(([192, 0, 2, client], 1024)));
            guess
        };
        assert_eq!(send(&service, guess()).await.status, 401);
        match send(&service, guess()).await.status {
            401 => {}
            429 => limited += 1,
            status => panic!("client {client} gets {status}"),
        }
    }
    assert!((5..35).contains(&limited), "{limited} of 40");
}

#[tokio::test]
async fn a_failed_look_up_rejects_nothing_below_all_keys() {
    let registry = registry();
    let fails = |_: &http::request::Parts| async { Err(KeyError::server("the directory is down")) };
    let limit = policy("p").by_async(fails).enforce(Percent::permille(999));
    let service = layer(&registry, limit).layer(Probe::default());
    assert_eq!(send(&service, request(&[])).await.status, 200);
    registry.set_mode(&PolicyName::literal("p"), Mode::Percent(Percent::ALL)).unwrap();
    assert_eq!(send(&service, request(&[])).await.status, 503);
}

#[test]
fn modes_change_while_requests_run() {
    let registry = registry();
    let service = layer(&registry, by_user("p")).layer(Probe::default());
    let name = PolicyName::literal("p");
    let running = AtomicUsize::new(CLIENTS);
    thread::scope(|scope| {
        for user in 0..CLIENTS {
            let (service, running) = (service.clone(), &running);
            scope.spawn(move || {
                block_on(async {
                    for _ in 0..1_000 {
                        let user = u32::try_from(user).unwrap();
                        assert!(matches!(send(&service, from(user)).await.status, 200 | 429));
                    }
                });
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        block_on(async {
            send(&service, from(900)).await;
            while running.load(Ordering::Relaxed) > 0 {
                for (mode, status) in
                    [(Mode::Shadow, 200), (Mode::Off, 200), (Mode::Percent(TENTH), 0), (Mode::Enforce, 429)]
                {
                    registry.set_mode(&name, mode).unwrap();
                    // A request that is sent after the change has the mode.
                    let answer = send(&service, from(900)).await;
                    assert!(status == 0 || answer.status == status, "{mode:?}: {}", answer.status);
                }
            }
        });
    });
}

const CLIENTS: usize = 4;
