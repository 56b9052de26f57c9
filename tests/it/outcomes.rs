//! Log-ins that are charged by their outcome: a real Axum server and a real Tonic server, with the budgets in memory and in Redis.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use portcullis::charge::ResponseOutcome;
use portcullis::key::Global;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::{Code, Request as Call};
use tonic_health::pb::HealthCheckRequest;

use crate::grpc::{connect, listen};

const FAILURES: Policy = Policy::fixed_window("failed-log-ins", Quota::per_week(5));

fn is_refused(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.status() == StatusCode::UNAUTHORIZED
}

/// Far more than a busy machine takes for a decision, which would be made in memory without a reply.
async fn in_redis(redis: &RedisServer) -> Limiter {
    Limiter::redis(redis.url()).deadline(Duration::from_secs(30)).await.unwrap()
}

/// A server with a limit on failed log-ins.
struct LogIns {
    url: String,
    client: HttpClient,
    /// The passwords that were checked.
    checked: Arc<AtomicUsize>,
}

impl LogIns {
    /// The right password is accepted once `valid` log-ins have sent it.
    async fn start(layer: RateLimitLayer, valid: usize) -> Self {
        let (checked, all_here) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(valid)));
        let counter = Arc::clone(&checked);
        let log_in = async move |password: String| {
            counter.fetch_add(1, Relaxed);
            if password == "correct horse" {
                all_here.wait().await;
                return StatusCode::NO_CONTENT;
            }
            // The hash of a password is checked elsewhere.
            tokio::task::spawn_blocking(|| StatusCode::UNAUTHORIZED).await.unwrap()
        };
        let app = Router::new().route("/log-in", post(log_in)).layer(layer);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/log-in", listener.local_addr().unwrap());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, client: HttpClient::http_1(), checked }
    }

    /// Sends this number of log-ins at the same time. Returns how many have each status.
    async fn send(&self, number: usize, password: &'static str, statuses: [u16; 2]) -> [usize; 2] {
        let mut requests = JoinSet::new();
        for _ in 0..number {
            let (client, url) = (self.client.clone(), self.url.clone());
            requests.spawn(async move { client.send(Request::post(url), password).await.status().as_u16() });
        }
        let seen = requests.join_all().await;
        assert!(seen.iter().all(|status| statuses.contains(status)), "{seen:?}");
        statuses.map(|status| seen.iter().filter(|seen| **seen == status).count())
    }

    async fn remaining(&self, password: &'static str) -> (u16, String) {
        let response = self.client.send(Request::post(&self.url), password).await;
        (response.status().as_u16(), response.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned())
    }
}

async fn twenty_valid_log_ins_pass_at_once(limiter: Limiter) {
    let layer = limiter.layer(FAILURES.by(ClientIp::peer()).charge_when(is_refused).charge_after_at_most(20));
    let server = LogIns::start(layer, 20).await;
    // Each waits in the handler for the last of them.
    assert_eq!(server.send(20, "correct horse", [204, 429]).await, [20, 0]);
    assert_eq!(server.remaining("guess").await, (401, "4".to_owned()), "nothing was charged before");
}

async fn five_of_fifty_parallel_guesses_are_checked(limiter: Limiter) {
    let layer = limiter.layer(FAILURES.by(ClientIp::peer()).charge_when(is_refused));
    let server = LogIns::start(layer, 1).await;
    for _ in 0..9 {
        assert_eq!(
            server.remaining("correct horse").await,
            (204, "5".to_owned()),
            "refunded before the response"
        );
    }
    assert_eq!(server.send(50, "guess", [401, 429]).await, [5, 45]);
    assert_eq!(server.checked.load(Relaxed), 9 + 5);
    assert_eq!(server.remaining("correct horse").await, (429, "0".to_owned()));
}

async fn parallel_guesses_are_bounded(limiter: Limiter) {
    let bound = 10;
    let layer =
        limiter.layer(FAILURES.by(ClientIp::peer()).charge_when(is_refused).charge_after_at_most(bound));
    let server = LogIns::start(layer, 1).await;
    let [failed, rejected] = server.send(1_000, "guess", [401, 429]).await;
    assert_eq!((failed + rejected, server.checked.load(Relaxed)), (1_000, failed));
    assert!((1..=5 + bound - 1).contains(&failed), "{failed} guesses were checked");
    // The rest of the limit, one at a time.
    while server.remaining("guess").await.0 == 401 {}
    let checked = server.checked.load(Relaxed);
    assert!((5..=5 + bound - 1).contains(&checked), "{checked} guesses were checked");
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_log_ins_at_once_pass_in_memory() {
    twenty_valid_log_ins_pass_at_once(Limiter::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_log_ins_at_once_pass_in_redis() {
    let redis = RedisServer::start().unwrap();
    twenty_valid_log_ins_pass_at_once(in_redis(&redis).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_guesses_are_the_limit_in_memory() {
    five_of_fifty_parallel_guesses_are_checked(Limiter::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_guesses_are_the_limit_in_redis() {
    let redis = RedisServer::start().unwrap();
    five_of_fifty_parallel_guesses_are_checked(in_redis(&redis).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_guesses_are_bounded_in_memory() {
    parallel_guesses_are_bounded(Limiter::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_guesses_are_bounded_in_redis() {
    let redis = RedisServer::start().unwrap();
    parallel_guesses_are_bounded(in_redis(&redis).await).await;
}

/// Tonic sends `OK` in the trailers, and an error without a message in the headers.
async fn calls_are_judged_by_their_status(limiter: Limiter) {
    let is_unknown = |outcome: &ResponseOutcome<'_>| outcome.grpc_status() == Some(Code::NotFound as i32);
    let layer = limiter.layer(FAILURES.by(Global).charge_when(is_unknown));
    let (incoming, url) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming);
    tokio::spawn(server);
    let mut client = connect(url).await;
    let named = |service: &str| Call::new(HealthCheckRequest { service: service.to_owned() });
    let left = |metadata: &tonic::metadata::MetadataMap| {
        metadata.get("x-ratelimit-remaining").unwrap().to_str().unwrap().parse::<u64>().unwrap()
    };

    let error = client.check(named("unknown")).await.unwrap_err();
    assert_eq!((error.code(), left(error.metadata())), (Code::NotFound, 4));
    // The headers are sent before the trailers, so they show the unit that is held.
    for _ in 0..9 {
        let started = Instant::now();
        loop {
            let response = client.check(named("")).await.unwrap();
            if left(response.metadata()) == 3 {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "a unit was not refunded");
        }
    }
    // A stream that its client drops has no status.
    drop(client.watch(named("")).await.unwrap());
    let started = Instant::now();
    while left(client.check(named("")).await.unwrap().metadata()) != 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "the stream is not charged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_judged_by_their_status_in_memory() {
    calls_are_judged_by_their_status(Limiter::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_judged_by_their_status_in_redis() {
    let redis = RedisServer::start().unwrap();
    calls_are_judged_by_their_status(in_redis(&redis).await).await;
}
