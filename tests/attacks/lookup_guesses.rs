//! Guesses of API keys over 50 connections, where a look-up and an address policy share a decision.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::request::Parts;
use axum::routing;
use portcullis::key::{Bearer, Global, Lookup};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, RateLimitLayer};
use portcullis_tests::per_half_century;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use crate::raw::{connect, count, get, pipelined, serve};

const GUESSES: usize = 10_000;
const CONNECTIONS: usize = 50;
const LIMIT: u64 = 20;
/// The right key is the last guess.
const RIGHT: usize = GUESSES - 1;

/// What the server has done.
#[derive(Clone, Default)]
struct Counters {
    lookups: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

fn policy(name: &'static str, limit: u64) -> Policy {
    Policy::fixed_window(name, per_half_century(limit))
}

/// A layer whose look-up of a key takes 2 ms.
fn limit(limiter: &Limiter, counters: &Counters) -> RateLimitLayer {
    let lookups = Arc::clone(&counters.lookups);
    let tenant = move |parts: &Parts| {
        lookups.fetch_add(1, Relaxed);
        let is_right = parts.headers.get("x-api-key").is_some_and(|key| *key == RIGHT.to_string());
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(if is_right { Lookup::found("tenant", "acme") } else { Lookup::missing() })
        }
    };
    limiter
        .layer(policy("tenants", 1_000).by_async(tenant))
        .and(policy("address", LIMIT).by(ClientIp::peer()))
        .and(policy("all", 1_000).by(Global))
}

async fn server(layer: RateLimitLayer, counters: &Counters) -> SocketAddr {
    let calls = Arc::clone(&counters.calls);
    let handler = async move || {
        calls.fetch_add(1, Relaxed);
    };
    serve(Router::new().route("/", routing::get(handler)).route_layer(layer)).await
}

/// Sends all guesses, spread over the connections, and returns the statuses.
async fn guess(to: SocketAddr, header: &'static str) -> Vec<u16> {
    let mut connections = JoinSet::new();
    for first in 0..CONNECTIONS {
        let guesses =
            (first..GUESSES).step_by(CONNECTIONS).map(move |guess| get(&format!("{header}{guess}")));
        connections.spawn(pipelined(ATTACKER, to, guesses));
    }
    connections.join_all().await.concat()
}

const ATTACKER: u8 = 66;
const TENANT: u8 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn guessed_keys_are_looked_up_within_the_address_limit() {
    let (limiter, counters) = (Limiter::memory(), Counters::default());
    let server = server(limit(&limiter, &counters), &counters).await;
    let answers = guess(server, "x-api-key: ").await;
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!((count(&answers, 400), count(&answers, 429)), (limit, GUESSES - limit));
    assert_eq!((counters.lookups.load(Relaxed), counters.calls.load(Relaxed)), (limit, 0));

    // The right key does not help an address that has guessed, and the guesses have used up no units of other keys.
    let right = || std::iter::once(get(&format!("x-api-key: {RIGHT}")));
    assert_eq!(pipelined(ATTACKER, server, right()).await, [429]);
    assert_eq!(pipelined(TENANT, server, right()).await, [200]);
    let all = limiter.key(|key| key.shared_part("global", b"")).unwrap();
    assert_eq!(limiter.peek(&policy("all", 1_000), all).await.unwrap().remaining(), 999);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_credential_are_limited_by_address() {
    let (limiter, counters) = (Limiter::memory(), Counters::default());
    let layer =
        limiter.layer(policy("tokens", 1_000).by(Bearer)).and(policy("address", LIMIT).by(ClientIp::peer()));
    let server = server(layer, &counters).await;
    let answers = guess(server, "authorization: Bearer a ").await;
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!((count(&answers, 401), count(&answers, 429)), (limit, GUESSES - limit));
    let good = || std::iter::once(get("authorization: Bearer good"));
    assert_eq!(pipelined(ATTACKER, server, good()).await, [429]);
    assert_eq!(pipelined(TENANT, server, good()).await, [200]);
    assert_eq!(counters.calls.load(Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_up_during_a_look_up_does_not_undo_the_charge() {
    let (limiter, counters) = (Limiter::memory(), Counters::default());
    let server = server(limit(&limiter, &counters), &counters).await;
    let mut started = 0;
    for _ in 0..200 {
        let mut connection = connect(ATTACKER, server).await;
        connection.write_all(get("x-api-key: 1").as_bytes()).await.unwrap();
        // Waits until the look-up has begun or the request is rejected with 429.
        let sent = Instant::now();
        while counters.lookups.load(Relaxed) == started && connection.try_read(&mut [0; 1]).is_err() {
            assert!(
                sent.elapsed() < Duration::from_secs(60),
                "no look-up has begun, and there is no response"
            );
            tokio::task::yield_now().await;
        }
        started = counters.lookups.load(Relaxed);
    }
    assert_eq!(started, usize::try_from(LIMIT).unwrap());
    let right = std::iter::once(get(&format!("x-api-key: {RIGHT}")));
    assert_eq!(pipelined(TENANT, server, right).await, [200]);
    let all = limiter.key(|key| key.shared_part("global", b"")).unwrap();
    assert_eq!(limiter.peek(&policy("all", 1_000), all).await.unwrap().remaining(), 999);
}
