//! Keys that are denied too often are blocked: by a store that answers at once, on a clock that the tests set.

mod reports;
mod rules;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use portcullis_core::overrides::LockOut;
use portcullis_core::{ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    ClientIp, Event, EventKind, Limit, PolicyExt as _, RateLimit, RateLimitLayer, Registry,
};
use tower::Layer as _;

use crate::log::log;
use crate::probe::{Answer, Probe, grpc, request, send};

const MINUTE: Duration = Duration::from_secs(60);

/// One request a minute.
const LOGIN: Policy = Policy::fixed_window("login", Quota::per_minute(1));

/// Three denials within a minute block for ten minutes, then for twenty, then for half an hour.
const RULE: LockOut =
    LockOut::after(3).within(MINUTE).block_for(MINUTE.saturating_mul(10)).up_to(MINUTE.saturating_mul(30));

/// A limiter in memory, and its clock.
fn limiter() -> (Arc<Registry>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(Registry::new(Arc::new(store), Secret::published())), clock)
}

fn by_address(registry: &Arc<Registry>) -> RateLimitLayer {
    layer(registry, login())
}

fn locking_out(registry: &Arc<Registry>) -> RateLimitLayer {
    layer(registry, login().lock_out(RULE))
}

fn login() -> Limit {
    LOGIN.by(ClientIp::peer())
}

fn layer(registry: &Arc<Registry>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), limit)
}

fn from(client: u8, mut request: Request<String>) -> Request<String> {
    request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, client], 1024)));
    request
}

async fn get(service: &RateLimit<Probe>, client: u8) -> Answer {
    send(service, from(client, request(&[]))).await
}

/// Sends requests of a client, the first of which passes, and returns the status of each.
async fn statuses(service: &RateLimit<Probe>, client: u8, requests: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..requests {
        statuses.push(get(service, client).await.status);
    }
    statuses
}

/// The lengths of the blocks that begin.
fn blocks(registry: &Registry) -> Arc<Mutex<Vec<Duration>>> {
    let blocks = Arc::<Mutex<Vec<Duration>>>::default();
    let seen = Arc::clone(&blocks);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        if let EventKind::LockedOut { policy, block } = event.kind {
            assert_eq!(policy.as_str(), "login");
            seen.lock().unwrap().push(block.length());
        }
    }));
    blocks
}

#[tokio::test]
async fn denials_block_a_key_beyond_its_window() {
    let (registry, clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    assert_eq!(statuses(&service, 1, 4).await, [200, 429, 429, 429]);
    assert_eq!(get(&service, 1).await.header("retry-after"), Some("600"));

    clock.advance(MINUTE * 9);
    assert_eq!(
        get(&service, 1).await.header("retry-after"),
        Some("60"),
        "the window has ended, the block has not"
    );
    assert_eq!(get(&service, 2).await.status, 200, "others are not blocked");
    clock.advance(MINUTE);
    assert_eq!(get(&service, 1).await.status, 200);
}

#[tokio::test]
async fn each_further_block_is_twice_as_long_up_to_a_bound() {
    let (registry, clock) = limiter();
    let blocks = blocks(&registry);
    let service = locking_out(&registry).layer(Probe::default());
    for _ in 0..4 {
        assert_eq!(statuses(&service, 1, 6).await, [200, 429, 429, 429, 429, 429]);
        let wait = get(&service, 1).await.header("retry-after").unwrap().parse().unwrap();
        clock.advance(Duration::from_secs(wait));
    }
    assert_eq!(*blocks.lock().unwrap(), [10, 20, 30, 30].map(|minutes| MINUTE * minutes));

    // Half an hour after the end of the last block it is forgotten.
    clock.advance(MINUTE * 30);
    statuses(&service, 1, 4).await;
    assert_eq!(blocks.lock().unwrap().last(), Some(&(MINUTE * 10)));
}

#[tokio::test]
async fn requests_of_a_blocked_key_do_not_make_the_block_longer() {
    let (registry, clock) = limiter();
    let blocks = blocks(&registry);
    let service = locking_out(&registry).layer(Probe::default());
    statuses(&service, 1, 100).await;
    clock.advance(MINUTE * 10);
    assert_eq!(get(&service, 1).await.status, 200);
    assert_eq!(blocks.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn denials_further_apart_than_the_time_do_not_block() {
    let (registry, clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    for _ in 0..10 {
        assert_eq!(statuses(&service, 1, 3).await, [200, 429, 429]);
        clock.advance(MINUTE);
    }
}

#[tokio::test]
async fn a_blocked_client_is_told_so_in_each_format() {
    let (registry, _clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    statuses(&service, 1, 4).await;

    let text = get(&service, 1).await;
    assert_eq!((text.status, text.text.as_str()), (429, "this client is blocked: retry after 600 s\n"));
    let figures = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    assert_eq!(figures.map(|name| text.header(name)), [Some("1"), Some("0"), Some("600")]);

    let json = send(&service, from(1, request(&[("accept", "application/problem+json")]))).await;
    let problem: serde_json::Value = serde_json::from_str(&json.text).unwrap();
    assert_eq!((&problem["blocked"], &problem["retry-after"]), (&true.into(), &600.into()));
    assert_eq!(problem["violated-policies"], serde_json::json!(["login"]));

    let refused = send(&service, from(1, grpc(&[]))).await;
    assert_eq!((refused.status, refused.header("grpc-status")), (200, Some("8")));
    assert_eq!(refused.header("grpc-retry-pushback-ms"), Some("600000"));
}

#[cfg(feature = "tonic")]
#[tokio::test]
async fn the_details_of_a_grpc_status_say_that_a_client_is_blocked() {
    use tonic_types::StatusExt as _;

    let (registry, _clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    for has_info in [false, true] {
        statuses(&service, 1, 4).await;
        let answer = if has_info {
            send(&service, from(1, grpc(&[]))).await
        } else {
            get(&service, 2).await;
            send(&service, from(2, grpc(&[]))).await
        };
        let details = tonic::Status::from_header_map(&answer.headers).unwrap().get_error_details();
        let info = details.error_info().map(|info| (info.reason.as_str(), info.domain.as_str()));
        assert_eq!(info, has_info.then_some(("BLOCKED", "portcullis")));
        let description = &details.quota_failure().unwrap().violations[0].description;
        assert_eq!(description == "this client is blocked", has_info, "{description}");
    }
}

#[tokio::test]
async fn a_block_is_one_event_and_one_line_without_the_key() {
    let (registry, _clock) = limiter();
    let blocks = blocks(&registry);
    let service = locking_out(&registry).layer(Probe::default());
    let (log, _guard) = log();
    for client in 1..=3 {
        statuses(&service, client, 5).await;
    }
    assert_eq!(blocks.lock().unwrap().len(), 3);
    let lines: Vec<_> = log.lines().into_iter().filter(|line| line.contains("locked out")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("login") && !lines[0].contains("192.0.2"), "{lines:?}");
}

#[tokio::test]
async fn a_block_by_hand_ends_by_hand_or_by_itself() {
    let (registry, clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    let clients = ClientIp::peer();
    let key = registry.key_of(&clients, from(7, request(&[]))).unwrap();

    registry.block(&LOGIN, key, MINUTE * 2).await.unwrap();
    assert_eq!(get(&service, 7).await.header("retry-after"), Some("120"));
    registry.unblock(&LOGIN, key).await.unwrap();
    assert_eq!(get(&service, 7).await.status, 200);

    registry.block(&LOGIN, key, MINUTE * 2).await.unwrap();
    assert!(registry.overrides(&LOGIN, key).await.unwrap().block().is_some());
    clock.advance(MINUTE * 2);
    assert_eq!(get(&service, 7).await.status, 200);
}

#[tokio::test]
async fn a_lock_out_that_is_lifted_begins_anew() {
    let (registry, clock) = limiter();
    let blocks = blocks(&registry);
    let service = locking_out(&registry).layer(Probe::default());
    let key = registry.key_of(&ClientIp::peer(), from(1, request(&[]))).unwrap();
    for _ in 0..2 {
        statuses(&service, 1, 4).await;
        registry.unblock(&LOGIN, key).await.unwrap();
        clock.advance(MINUTE);
    }
    assert_eq!(*blocks.lock().unwrap(), [MINUTE * 10, MINUTE * 10]);
}
