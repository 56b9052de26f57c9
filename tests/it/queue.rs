//! The leaky bucket behind a layer: admitted requests wait for their slots in order, across all processes.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use portcullis::key::Global;
use portcullis::redis::RedisStore;
use portcullis::store::Checks;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

/// A service that passes one request per second and queues five, on a paused clock.
struct Queue {
    limiter: Limiter,
    start: Instant,
    /// The numbers of the requests that passed, each with the milliseconds since the start.
    passed: Arc<Mutex<Vec<(u32, u128)>>>,
}

impl Queue {
    fn new() -> Self {
        let store = MemoryStore::builder().clock(ManualClock::default()).build();
        let limiter = Limiter::new(store, Secret::published());
        Self { limiter, start: Instant::now(), passed: Arc::default() }
    }

    /// Sends a request. Its slot is reserved here, not when the response is awaited.
    async fn send(&self, number: u32) -> JoinHandle<StatusCode> {
        let (passed, start) = (Arc::clone(&self.passed), self.start);
        let policy = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
        let inner = service_fn(move |request: Request<String>| {
            let number = request.body().parse().unwrap();
            passed.lock().unwrap().push((number, start.elapsed().as_millis()));
            async { Ok::<_, Infallible>(Response::new(Body::empty())) }
        });
        let mut service = self.limiter.layer(policy.by(Global)).layer(inner);
        let response = service.ready().await.unwrap().call(Request::new(number.to_string()));
        tokio::spawn(async { response.await.unwrap().status() })
    }

    fn passed(&self) -> Vec<(u32, u128)> {
        self.passed.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_pass_once_per_interval_and_a_full_queue_denies() {
    let queue = Queue::new();
    let mut responses = Vec::new();
    for number in 0..6 {
        responses.push(queue.send(number).await);
    }
    let mut statuses = Vec::new();
    for response in responses {
        statuses.push(response.await.unwrap().as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    assert_eq!(queue.passed(), [(0, 0), (1, 1_000), (2, 2_000), (3, 3_000), (4, 4_000)]);
}

#[tokio::test(start_paused = true)]
async fn requests_behind_a_dropped_one_move_up() {
    let queue = Queue::new();
    let mut responses = Vec::new();
    for number in 0..4 {
        responses.push(queue.send(number).await);
    }
    responses[1].abort();
    for (number, response) in responses.into_iter().enumerate() {
        assert_eq!(response.await.is_ok(), number != 1);
    }
    assert_eq!(queue.passed(), [(0, 0), (2, 1_000), (3, 2_000)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_share_slots_in_redis_in_order() {
    let redis = RedisServer::start().unwrap();
    let quota = Quota::new(1, Duration::from_mins(1), Some(60)).unwrap();
    let policy = Policy::leaky_bucket("queue", quota);
    let mut calls = JoinSet::new();
    for _ in 0..2 {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        for _ in 0..25 {
            let limiter = Limiter::new(store.clone(), Secret::published());
            let key = limiter.key(|key| key.part("user", b"ada")).unwrap();
            let checks = Checks::one(policy.clone(), key, 1);
            calls.spawn(async move { limiter.store().check(checks).await.unwrap().into_decision() });
        }
    }
    let mut decisions = calls.join_all().await;
    decisions.sort_by_key(portcullis::Decision::delay);
    let first = decisions[0].at();
    assert!(decisions[0].delay().is_zero());
    for (number, decision) in decisions.iter().enumerate() {
        let slot = decision.at().saturating_add(decision.delay()).saturating_since(first);
        assert_eq!(slot, Duration::from_mins(1) * u32::try_from(number).unwrap());
    }
    assert!(decisions.is_sorted_by_key(portcullis::Decision::at), "slots are in the order of the checks");
}
