//! Policies whose requests wait instead of being rejected: real Axum servers with real clients, on memory and on Redis, and ten
//! thousand requests at once.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::Request;
use axum::routing::get;
use portcullis::key::Header;
use portcullis::layer::Concurrency;
use portcullis::redis::RedisStore;
use portcullis::store::Store;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_core::{Clock, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::{AroundStore, HttpClient};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;
use tower::util::MapRequestLayer;

/// The requests that arrived, the checks of the store, and its answers to them.
#[derive(Default)]
struct Counts {
    arrived: AtomicUsize,
    checks: AtomicUsize,
    answers: AtomicUsize,
}

/// A server under a policy by user, whose handler notes the requests that reach it.
struct Server {
    app: Router,
    counts: Arc<Counts>,
    passed: Arc<Mutex<Vec<u32>>>,
}

impl Server {
    fn new(store: impl Store, policy: Policy) -> Self {
        let (counts, passed) = (Arc::<Counts>::default(), Arc::<Mutex<Vec<_>>>::default());
        let counted = Arc::clone(&counts);
        let store = AroundStore::new(store, move |decide| {
            counted.checks.fetch_add(1, Relaxed);
            let counts = Arc::clone(&counted);
            decide().map(move |answer| {
                counts.answers.fetch_add(1, Relaxed);
                answer
            })
        });
        let limiter = Limiter::new(store, Secret::published());
        let (list, arrivals) = (Arc::clone(&passed), Arc::clone(&counts));
        let note = move |Path(number): Path<u32>| {
            list.lock().unwrap().push(number);
            async { "done" }
        };
        let app = Router::new()
            .route("/{number}", get(note))
            .layer(limiter.layer(policy.by(Header::named("x-user"))))
            .layer(MapRequestLayer::new(move |request: Request<Body>| {
                arrivals.arrived.fetch_add(1, Relaxed);
                request
            }));
        Self { app, counts, passed }
    }

    /// Serves on a socket. Returns the URL.
    async fn listen(&self) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = self.app.clone();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        url
    }

    /// Waits until this number of requests have arrived, and the store has answered what it was asked.
    async fn has_arrived(&self, requests: usize) {
        let Counts { arrived, checks, answers } = &*self.counts;
        within_a_minute("a request arrives", async {
            while arrived.load(Relaxed) < requests || answers.load(Relaxed) < checks.load(Relaxed) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Sends requests of one user over a socket, each when the one before it has arrived. Returns their statuses.
    async fn send(&self, requests: u32) -> Vec<u16> {
        let (url, client) = (self.listen().await, HttpClient::http_1());
        let mut responses: Vec<JoinHandle<u16>> = Vec::new();
        for number in 0..requests {
            let (client, request) = (client.clone(), Request::get(format!("{url}/{number}")));
            let request = request.header("x-user", "ada");
            responses.push(tokio::spawn(async move { client.send(request, ()).await.status().as_u16() }));
            self.has_arrived(responses.len()).await;
        }
        let mut statuses = Vec::new();
        for response in responses {
            statuses.push(response.await.unwrap());
        }
        statuses
    }

    /// Sends 10 000 requests of 16 users at once, without sockets. Returns how many have each status.
    async fn flood(&self) -> HashMap<u16, usize> {
        let mut responses = Vec::new();
        for number in 0..10_000 {
            let request = Request::get(format!("/{number}")).header("x-user", number % USERS);
            let response = self.app.clone().oneshot(request.body(Body::empty()).unwrap());
            responses.push(tokio::spawn(async { response.await.unwrap().status().as_u16() }));
        }
        let mut statuses = HashMap::new();
        for response in responses {
            *statuses.entry(response.await.unwrap()).or_default() += 1;
        }
        statuses
    }

    /// Whether the requests of each user have passed in order of arrival.
    fn is_fair(&self) -> bool {
        let passed = self.passed.lock().unwrap();
        (0..USERS).all(|user| passed.iter().filter(|number| *number % USERS == user).is_sorted())
    }

    fn checks(&self) -> usize {
        self.counts.checks.load(Relaxed)
    }
}

/// One call per half second, so that a process that stands still for less lets no two of them pass at once.
fn rate() -> Policy {
    Policy::gcra("rate", Quota::per_second(2)).wait_at_most(Duration::from_secs(60))
}

/// Five calls per second; others wait for up to five seconds.
fn window() -> Policy {
    Policy::fixed_window("window", Quota::per_second(5)).wait_at_most(Duration::from_secs(5))
}

async fn redis() -> (RedisServer, RedisStore) {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::builder(server.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    (server, store)
}

async fn waits_in_order_with_one_check_each(server: Server) {
    assert_eq!(server.send(5).await, [200; 5]);
    assert_eq!(*server.passed.lock().unwrap(), (0..5).collect::<Vec<_>>());
    assert_eq!(server.checks(), 5);
}

async fn waits_for_windows_in_order(server: Server) {
    assert_eq!(server.send(14).await, [200; 14]);
    assert_eq!(*server.passed.lock().unwrap(), (0..14).collect::<Vec<_>>());
    // One check for each request, and one for each denial: the first waiting request is denied, and one in each window.
    assert!(server.checks() <= 14 + 1 + 5, "{}", server.checks());
}

#[tokio::test]
async fn requests_wait_for_their_slots_in_memory() {
    waits_in_order_with_one_check_each(Server::new(MemoryStore::new(), rate())).await;
}

#[tokio::test]
async fn requests_wait_for_their_slots_in_redis() {
    let (_server, store) = redis().await;
    waits_in_order_with_one_check_each(Server::new(store, rate())).await;
}

#[tokio::test]
async fn requests_wait_for_windows_in_memory() {
    waits_for_windows_in_order(Server::new(MemoryStore::new(), window())).await;
}

#[tokio::test]
async fn requests_wait_for_windows_in_redis() {
    let (_server, store) = redis().await;
    waits_for_windows_in_order(Server::new(store, window())).await;
}

#[tokio::test]
async fn too_long_wait_is_rejected_at_once() {
    let (_server, store) = redis().await;
    let hourly = Policy::token_bucket("hourly", Quota::per_hour(2)).wait_at_most(Duration::from_secs(60));
    let server = Server::new(store, hourly);
    assert_eq!(server.send(3).await, [200, 200, 429]);
}

/// Tokio's clock, which is paused.
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(Duration::from_secs(3_600_000) + self.0.elapsed())
    }
}

fn virtual_memory() -> MemoryStore<Virtual> {
    MemoryStore::builder().clock(Virtual(Instant::now())).build()
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_for_slots_are_fair_and_bounded() {
    let policy = Policy::gcra("rate", Quota::per_second(100)).wait_at_most(Duration::from_mins(1));
    let server = Server::new(virtual_memory(), policy);
    let statuses = server.flood().await;
    // One request of each user passes at once, and a sixteenth of 4 096 may wait.
    let passed = 16 * (1 + 256);
    assert_eq!(statuses, HashMap::from([(200, passed), (503, 10_000 - passed)]));
    assert!(server.is_fair());
    assert_eq!(server.checks(), passed, "a request that may not wait does not ask");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_for_windows_are_fair_and_bounded() {
    let policy = Policy::fixed_window("window", Quota::per_second(100)).wait_at_most(Duration::from_mins(1));
    let server = Server::new(virtual_memory(), policy);
    let statuses = server.flood().await;
    let passed = 16 * (100 + 256);
    assert_eq!(statuses, HashMap::from([(200, passed), (503, 10_000 - passed)]));
    assert!(server.is_fair());
    // The first that waits was denied, and the first of two windows that were too small for all.
    assert_eq!(server.checks(), passed + 16 * (1 + 2));
}

#[tokio::test]
async fn ten_thousand_requests_on_redis_ask_about_once_each() {
    for policy in [
        Policy::gcra("rate", Quota::per_second(100)).wait_at_most(Duration::from_mins(1)),
        Policy::fixed_window("window", Quota::per_second(100)).wait_at_most(Duration::from_mins(1)),
    ] {
        let (_server, store) = redis().await;
        let server = Server::new(store, policy);
        let statuses = server.flood().await;
        assert!(statuses.keys().all(|status| [200, 503].contains(status)), "{statuses:?}");
        assert!(statuses[&200] >= 16 * 256, "{statuses:?}");
        // One call per request, at most one denial of each, and a few per window.
        assert!(server.checks() <= 20_000 + 16 * 60, "{}", server.checks());
        println!("{statuses:?} by {} checks", server.checks());
    }
}

/// Sends requests to each of these instances, which all hold one of two permits for a while. Returns the most that ran at once.
async fn most_at_once(limiters: Vec<Limiter>, requests: usize) -> usize {
    let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let exports = Concurrency::new("exports", 2).wait_at_most(Duration::from_secs(60));
    let mut responses = Vec::new();
    for limiter in limiters {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let export = move || {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Relaxed);
            }
        };
        let layer = limiter.layer(exports.clone().by(Header::named("x-user")));
        let app: Router = Router::new().route("/", get(export)).layer(layer);
        for _ in 0..requests {
            let request = Request::get("/").header("x-user", "ada").body(Body::empty()).unwrap();
            let response = app.clone().oneshot(request);
            responses.push(tokio::spawn(async { response.await.unwrap().status().as_u16() }));
        }
    }
    for response in responses {
        assert_eq!(response.await.unwrap(), 200);
    }
    most.load(Relaxed)
}

#[tokio::test]
async fn requests_wait_for_permits_in_memory() {
    assert_eq!(most_at_once(vec![Limiter::memory()], 20).await, 2);
}

#[tokio::test]
async fn instances_wait_for_permits_of_one_redis() {
    let (server, store) = redis().await;
    let other = RedisStore::builder(server.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    let limiters = [store, other].map(|store| Limiter::new(store, Secret::published()));
    assert_eq!(most_at_once(limiters.into(), 10).await, 2);
}

const USERS: u32 = 16;
