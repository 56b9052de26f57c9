//! API keys guessed where a look-up and an address policy share a decision, over 50 connections at a time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use axum::routing::get;
use portcullis::{Bearer, ClientIp, Global, Limiter, Lookup, Policy, Quota, RateLimitLayer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

const GUESSES: usize = 10_000;
const CONNECTIONS: usize = 50;
const LIMIT: u32 = 20;
/// The right key is the last that is guessed.
const RIGHT: usize = GUESSES - 1;

/// What the server did.
#[derive(Clone, Default)]
struct Seen {
    lookups: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

fn policy(name: &'static str, limit: u32) -> Policy {
    Policy::fixed_window(name, Quota::per_hour(limit))
}

/// Looks keys up in 2 ms.
fn limit(limiter: &Limiter, seen: &Seen) -> RateLimitLayer {
    let lookups = Arc::clone(&seen.lookups);
    let tenant = move |parts: &Parts| {
        lookups.fetch_add(1, Relaxed);
        let is_right = parts.headers.get("x-api-key").is_some_and(|key| *key == RIGHT.to_string());
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(if is_right { Lookup::found("tenant", "acme") } else { Lookup::missing() })
        }
    };
    limiter
        .layer(policy("tenants", 1_000))
        .by_async(tenant)
        .and_policy(policy("address", LIMIT))
        .by(ClientIp::peer())
        .and_policy(policy("all", 1_000))
        .by(Global)
}

async fn serve(layer: RateLimitLayer, seen: &Seen) -> SocketAddr {
    let calls = Arc::clone(&seen.calls);
    let handler = async move || {
        calls.fetch_add(1, Relaxed);
    };
    let app = Router::new().route("/", get(handler)).route_layer(layer);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

/// The statuses of requests that are sent over one connection without waiting for answers.
async fn statuses(from: [u8; 4], to: SocketAddr, headers: impl Iterator<Item = String>) -> Vec<u16> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let (mut answers, mut connection) = socket.connect(to).await.unwrap().into_split();
    let requests: String =
        headers.map(|header| format!("GET / HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n")).collect();
    let last = "GET /absent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let writer = tokio::spawn(async move {
        connection.write_all((requests + last).as_bytes()).await.unwrap();
        connection
    });
    let mut text = String::new();
    answers.read_to_string(&mut text).await.unwrap();
    writer.await.unwrap();
    let mut statuses: Vec<_> =
        text.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap()).collect();
    assert_eq!(statuses.pop(), Some(404));
    statuses
}

/// All guesses, over many connections.
async fn guess(to: SocketAddr, header: &'static str) -> Vec<u16> {
    let mut connections = JoinSet::new();
    for first in 0..CONNECTIONS {
        let guesses = (first..GUESSES).step_by(CONNECTIONS).map(move |guess| format!("{header}{guess}"));
        connections.spawn(statuses(ATTACKER, to, guesses));
    }
    connections.join_all().await.concat()
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|other| **other == status).count()
}

const ATTACKER: [u8; 4] = [127, 0, 0, 66];
const TENANT: [u8; 4] = [127, 0, 0, 1];

#[tokio::test(flavor = "multi_thread")]
async fn guessed_keys_are_looked_up_within_the_address_limit() {
    let (limiter, seen) = (Limiter::memory(), Seen::default());
    let server = serve(limit(&limiter, &seen), &seen).await;
    let answers = guess(server, "x-api-key: ").await;
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!((count(&answers, 400), count(&answers, 429)), (limit, GUESSES - limit));
    assert_eq!((seen.lookups.load(Relaxed), seen.calls.load(Relaxed)), (limit, 0));

    // The right key does not help an address that has guessed, and the guesses have used up nothing of others.
    let right = || std::iter::once(format!("x-api-key: {RIGHT}"));
    assert_eq!(statuses(ATTACKER, server, right()).await, [429]);
    assert_eq!(statuses(TENANT, server, right()).await, [200]);
    let all = limiter.key(|key| key.shared_part("global", b"")).unwrap();
    assert_eq!(limiter.peek(&policy("all", 1_000), all).await.unwrap().remaining(), 999);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_credential_are_limited_by_address() {
    let (limiter, seen) = (Limiter::memory(), Seen::default());
    let layer = limiter
        .layer(policy("tokens", 1_000))
        .by(Bearer)
        .and_policy(policy("address", LIMIT))
        .by(ClientIp::peer());
    let server = serve(layer, &seen).await;
    let answers = guess(server, "authorization: Bearer a ").await;
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!((count(&answers, 401), count(&answers, 429)), (limit, GUESSES - limit));
    let good = || std::iter::once("authorization: Bearer good".to_owned());
    assert_eq!(statuses(ATTACKER, server, good()).await, [429]);
    assert_eq!(statuses(TENANT, server, good()).await, [200]);
    assert_eq!(seen.calls.load(Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_hang_up_during_a_look_up_stay_charged() {
    let (limiter, seen) = (Limiter::memory(), Seen::default());
    let server = serve(limit(&limiter, &seen), &seen).await;
    let mut started = 0;
    for _ in 0..200 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((ATTACKER, 0).into()).unwrap();
        let mut connection = socket.connect(server).await.unwrap();
        connection.set_zero_linger().unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx-api-key: 1\r\n\r\n").await.unwrap();
        // Until the look-up has begun, or the request is answered 429.
        while seen.lookups.load(Relaxed) == started && connection.try_read(&mut [0; 1]).is_err() {
            tokio::task::yield_now().await;
        }
        started = seen.lookups.load(Relaxed);
    }
    assert_eq!(started, usize::try_from(LIMIT).unwrap());
    let right = std::iter::once(format!("x-api-key: {RIGHT}"));
    assert_eq!(statuses(TENANT, server, right).await, [200]);
    let all = limiter.key(|key| key.shared_part("global", b"")).unwrap();
    assert_eq!(limiter.peek(&policy("all", 1_000), all).await.unwrap().remaining(), 999);
}
