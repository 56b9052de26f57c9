//! Requests that wait in front of a concurrency limit: for a slot in a queue, or for a look-up that hangs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request};
use axum::routing;
use portcullis::key::{KeyExtractor as _, Lookup};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_tests::per_half_century;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tower::limit::ConcurrencyLimitLayer;

use crate::raw::{connect, exchange, get, serve, status};

const QUEUED: usize = 100;
const CONCURRENCY: usize = 50;

/// One request per second and address, and a hundred more that wait.
fn queue(limiter: &Limiter) -> RateLimitLayer {
    let slow = Policy::leaky_bucket("queue", Quota::per_second(1).burst(1 + u64::try_from(QUEUED).unwrap()));
    limiter.layer(slow.by(ClientIp::peer()))
}

/// Looks up the tenant of an API key. The look-up of the key `hangs` takes five minutes.
fn lookup(limiter: &Limiter) -> RateLimitLayer {
    let address = Policy::fixed_window("address", per_half_century(1_000));
    let tenant = |parts: &Parts| {
        let hangs = parts.headers.get("x-api-key").is_some_and(|key| key == "hangs");
        async move {
            if hangs {
                tokio::time::sleep(Duration::from_secs(300)).await;
            }
            Ok(Lookup::found("tenant", "acme"))
        }
    };
    let layer = limiter.layer(address.by(ClientIp::peer()));
    layer
        .and(Policy::fixed_window("tenant", per_half_century(1_000)).by_async(tenant))
        .lookup_deadline(Duration::from_secs(300))
}

/// Starts a server with a concurrency limit inside the layer. Returns its address, and the number of the attacker's requests
/// that it has handled.
async fn server(layer: RateLimitLayer) -> (SocketAddr, Arc<AtomicUsize>) {
    let calls = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&calls);
    let handler = async move |headers: HeaderMap| {
        if headers.contains_key("x-attacker") {
            count.fetch_add(1, Relaxed);
        }
    };
    let app = Router::new()
        .route("/", routing::get(handler))
        .route_layer(ConcurrencyLimitLayer::new(CONCURRENCY))
        .route_layer(layer);
    (serve(app).await, calls)
}

/// Sends each request over its own connection, and returns the connections.
async fn send(to: SocketAddr, requests: usize) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..requests {
        let mut connection = connect(66, to).await;
        connection.write_all(get("x-attacker: 1\r\nx-api-key: hangs").as_bytes()).await.unwrap();
        connections.push(connection);
    }
    connections
}

async fn first_status(mut connection: TcpStream) -> u16 {
    let mut head = [0; "HTTP/1.1 200".len()];
    connection.read_exact(&mut head).await.unwrap();
    status(str::from_utf8(&head).unwrap())
}

/// Sends a request from each of several other addresses, and asserts that it is handled.
async fn assert_others_are_handled(to: SocketAddr) {
    for host in 1..=20 {
        let answer = tokio::time::timeout(Duration::from_secs(30), exchange(host, to, &get(""))).await;
        assert_eq!(status(&answer.expect("others get a response while the attacker waits")), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_does_not_block_the_inner_service() {
    let (server, calls) = server(queue(&Limiter::memory())).await;
    let connections = send(server, QUEUED).await;
    let sent = Instant::now();
    while calls.load(Relaxed) == 0 {
        assert!(sent.elapsed() < Duration::from_secs(60), "no request is handled");
        tokio::task::yield_now().await;
    }
    assert_others_are_handled(server).await;
    // If waiting requests held permits of the concurrency limit, all but the last 50 would have run before any other.
    assert!(calls.load(Relaxed) < QUEUED - CONCURRENCY, "the others did not wait for the queue");
    drop(connections);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_does_not_block_the_inner_service() {
    let (server, calls) = server(lookup(&Limiter::memory())).await;
    let connections = send(server, QUEUED).await;
    assert_others_are_handled(server).await;
    assert_eq!(calls.load(Relaxed), 0);
    drop(connections);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_use_all_of_the_waiting_capacity() {
    let limiter = Limiter::memory().max_waiting_requests(160);
    let (server, _) = server(lookup(&limiter)).await;
    let connections = send(server, QUEUED).await;
    // Ten requests of one address wait, and its others are rejected at once.
    let mut answers: JoinSet<_> = connections.into_iter().map(first_status).collect();
    for _ in 10..QUEUED {
        let answer = tokio::time::timeout(Duration::from_secs(30), answers.join_next()).await;
        assert_eq!(answer.unwrap().unwrap().unwrap(), 503);
    }
    assert_eq!(answers.len(), 10);
    let answer = exchange(66, server, &get("x-api-key: right")).await;
    assert_eq!(status(&answer), 503);
    assert!(!answer.contains("retry-after") && !answer.contains("x-ratelimit"), "{answer}");
    assert_others_are_handled(server).await;
    // Requests that are not allowed to wait are not charged.
    let request = Request::builder().extension(SocketAddr::from(([127, 0, 0, 66], 1)));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let key = limiter.key(|key| drop(ClientIp::peer().extract(&parts, key))).unwrap();
    let address = Policy::fixed_window("address", per_half_century(1_000));
    assert_eq!(limiter.peek(&address, key).await.unwrap().remaining(), 990);
    assert_eq!(answers.len(), 10);
}
