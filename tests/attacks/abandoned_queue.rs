//! A shared queue that is filled repeatedly with requests that are cancelled before their slots.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::{Router, routing};
use portcullis::key::Global;
use portcullis::store::MemoryStore;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret, Timestamp};
use portcullis_core::Clock;
use portcullis_servers::RedisServer;
use tokio::io::AsyncWriteExt as _;
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;

use crate::raw::{connect, exchange, get, serve, status};

/// The number of requests from other clients.
const OTHERS: usize = 200;

/// An application behind a shared queue, and the number of other clients' requests that it has handled.
fn app(limiter: &Limiter, rate: u64, burst: u64) -> (Router, Arc<AtomicUsize>) {
    let handled = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&handled);
    let count_others = async move |headers: HeaderMap| {
        if !headers.contains_key("x-attacker") {
            count.fetch_add(1, Relaxed);
        }
    };
    let queue = Policy::leaky_bucket("queue", Quota::per_second(rate).burst(burst));
    let app =
        Router::new().route("/", routing::get(count_others)).route_layer(limiter.layer(queue.by(Global)));
    (app, handled)
}

/// Tokio's clock, which the test pauses.
struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(Duration::from_secs(3_600) + self.0.elapsed())
    }
}

fn send(app: &Router, attacker: bool) -> JoinHandle<StatusCode> {
    let mut request = Request::builder().uri("/");
    if attacker {
        request = request.header("x-attacker", "1");
    }
    let response = app.clone().oneshot(request.body(Body::empty()).unwrap());
    tokio::spawn(async { response.await.unwrap().status() })
}

#[tokio::test(start_paused = true)]
async fn others_are_handled_at_the_full_rate_of_an_abandoned_queue() {
    let start = tokio::time::Instant::now();
    let store = MemoryStore::builder().clock(PausedClock(start)).build();
    let (app, handled) = app(&Limiter::new(store, Secret::published()), 10, 100);
    let mut sent = Vec::new();
    // Ten times a second, the attacker fills the queue and cancels its requests, and another client sends one.
    for _ in 0..OTHERS {
        let filled: Vec<_> = (0..200).map(|_| send(&app, true)).collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        filled.iter().for_each(JoinHandle::abort);
        tokio::time::sleep(Duration::from_millis(10)).await;
        sent.push(send(&app, false));
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    let at_once = handled.load(Relaxed);
    for request in sent {
        assert_eq!(request.await.unwrap(), 200, "cancelled requests do not fill the queue");
    }
    assert!(at_once >= OTHERS - 2, "{at_once} handled after 20 s");
}

/// Fills the queue and resets all connections, until `stop` is set.
async fn attack(server: SocketAddr, stop: Arc<AtomicBool>) {
    while !stop.load(Relaxed) {
        let mut connections = Vec::new();
        for _ in 0..100 {
            let mut connection = connect(66, server).await;
            if connection.write_all(get("x-attacker: 1").as_bytes()).await.is_ok() {
                connections.push(connection);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends the requests of the other clients, which retry while the queue is full. Returns the time that this takes.
async fn others(server: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..20 {
        clients.spawn(async move {
            for _ in 0..OTHERS / 20 {
                while status(&exchange(client + 1, server, &get("")).await) != 200 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
    clients.join_all().await;
    start.elapsed()
}

/// At 50 per second, the other clients take 4 s without an attack.
async fn assert_others_are_handled(limiter: &Limiter) {
    let (app, handled) = app(limiter, 50, 100);
    let server = serve(app).await;
    let stop = Arc::<AtomicBool>::default();
    let attacker = tokio::spawn(attack(server, Arc::clone(&stop)));
    let duration = tokio::time::timeout(Duration::from_secs(60), others(server)).await;
    stop.store(true, Relaxed);
    attacker.await.unwrap();
    assert_eq!(handled.load(Relaxed), OTHERS);
    // If the slots of cancelled requests stayed empty, it would take 20 s. A busy machine may add 11 s to the 4 s.
    assert!(duration.as_ref().unwrap() < &Duration::from_secs(15), "{duration:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_slots_in_memory_are_used_by_others() {
    assert_others_are_handled(&Limiter::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_slots_in_redis_are_used_by_others() {
    let redis = RedisServer::start().unwrap();
    assert_others_are_handled(&Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap())
        .await;
}
