//! Refunds that are collected and used all at once.
//!
//! A job is charged when it is accepted and refunded when it is cancelled. The client keeps to the limit for five minutes,
//! cancels all of its jobs at one instant, and posts another job between any two refunds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::{delete, post};
use portcullis::key::Header;
use portcullis::redis::RedisStore;
use portcullis::store::Store;
use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota, Secret, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

/// Longer than a reply takes on a busy machine: a check without a reply would be decided in memory.
const DEADLINE: Duration = Duration::from_secs(10);

/// The charge of each job, by its number, until the job is cancelled.
type Jobs = Arc<Mutex<Vec<Option<Charge>>>>;

async fn accept(State(jobs): State<Jobs>, charge: Charge) -> String {
    let mut jobs = jobs.lock().unwrap();
    jobs.push(Some(charge));
    (jobs.len() - 1).to_string()
}

async fn cancel(State(jobs): State<Jobs>, Path(job): Path<usize>) -> StatusCode {
    let charge = jobs.lock().unwrap().get_mut(job).and_then(Option::take);
    match charge {
        Some(charge) => {
            charge.refund().await.unwrap();
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

struct Attacker {
    client: HttpClient,
    url: String,
    clock: ManualClock,
}

impl Attacker {
    /// Starts a server that limits by `policy`.
    async fn new(store: impl Store, policy: Policy, clock: ManualClock) -> Self {
        let limited = Limiter::new(store, Secret::published())
            .layer(policy.by(Header::named("x-api-key")))
            .with_charge();
        let app = Router::new()
            .route("/jobs", post(accept).layer(limited))
            .route("/jobs/{job}", delete(cancel))
            .with_state(Jobs::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/jobs", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { client: HttpClient::http_1(), url, clock }
    }

    fn set_time(&self, millis: u64) {
        self.clock.set(Timestamp::from_micros(1_767_225_600_000_000 + millis * 1_000));
    }

    /// Posts a job. Returns its number if the server has accepted it.
    async fn post(&self) -> Option<String> {
        let request = Request::post(&self.url).header("x-api-key", "mallory");
        let response = self.client.send(request, ()).await;
        match response.status() {
            StatusCode::OK => Some(String::from_utf8(response.into_body().to_vec()).unwrap()),
            status => {
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
                None
            }
        }
    }

    async fn cancel(&self, job: &str) {
        let response = self.client.send(Request::delete(format!("{}/{job}", self.url)), ()).await;
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
    }

    /// Posts one job per second for five minutes, then cancels all of them at one instant and posts as many as possible
    /// meanwhile. Returns the number accepted at that instant.
    async fn collect_refunds(&self) -> usize {
        let mut jobs = Vec::new();
        for second in 0..300 {
            self.set_time(second * 1_000);
            jobs.push(self.post().await.expect("the client keeps to the limit"));
        }
        self.set_time(300_000);
        let mut accepted = 0;
        for job in jobs {
            accepted += usize::from(self.post().await.is_some());
            self.cancel(&job).await;
        }
        accepted + usize::from(self.post().await.is_some())
    }
}

/// One request per second, with a burst of one.
fn policies() -> [Policy; 3] {
    let quota = Quota::per_second(1);
    [
        Policy::gcra("gcra", quota),
        Policy::token_bucket("bucket", quota),
        Policy::leaky_bucket("queue", quota.burst(1)),
    ]
}

#[tokio::test]
async fn collected_refunds_admit_one_burst_in_memory() {
    for policy in policies() {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let attacker = Attacker::new(store, policy, clock).await;
        assert_eq!(attacker.collect_refunds().await, 1);
    }
}

#[tokio::test]
async fn collected_refunds_admit_one_burst_in_redis() {
    let server = RedisServer::start().unwrap();
    for policy in policies() {
        let clock = ManualClock::default();
        let builder = RedisStore::builder(server.url()).deadline(DEADLINE).scenario_clock(clock.clone());
        let store = builder.connect().await.unwrap();
        let attacker = Attacker::new(store, policy, clock).await;
        assert_eq!(attacker.collect_refunds().await, 1);
    }
}

/// Before a charge has flowed back, its refund frees what is left of it.
#[tokio::test]
async fn an_early_refund_frees_what_is_left_of_the_charge() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let attacker = Attacker::new(store, Policy::gcra("gcra", Quota::per_second(1)), clock).await;
    attacker.set_time(0);
    let first = attacker.post().await.unwrap();
    attacker.cancel(&first).await;
    let second = attacker.post().await.expect("an immediate refund frees the whole charge");
    attacker.set_time(600);
    attacker.cancel(&second).await;
    assert!(attacker.post().await.is_some(), "burst and one refund");
    assert!(attacker.post().await.is_none());
}
