//! Outgoing requests: real clients that keep to the limits of real servers, and to what they answer, also if that is a lie.

mod grpc;
mod liar;
mod processes;
mod reqwest;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use portcullis::key::Global;
use portcullis::outgoing::{Outgoing, OutgoingError, OutgoingLayer};
use portcullis::redis::RedisStore;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_servers::RedisServer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{Layer as _, ServiceExt as _};

/// A server of others, which limits all its clients together by this crate. Counts the requests that arrive.
struct Server {
    url: String,
    arrived: Arc<AtomicUsize>,
}

impl Server {
    async fn start(policy: Policy) -> Self {
        let arrived = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&arrived);
        let app = Router::new()
            .route("/", get(|| async { "done" }))
            .layer(Limiter::memory().layer(policy.by(Global)))
            .layer(axum::middleware::map_request(move |request: Request<Body>| {
                count.fetch_add(1, Relaxed);
                std::future::ready(request)
            }));
        Self { url: serve(app).await, arrived }
    }

    fn arrived(&self) -> usize {
        self.arrived.load(Relaxed)
    }
}

/// Serves on a socket. Returns the URL.
async fn serve(app: Router) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

/// A worker with a client of its own.
#[derive(Clone)]
struct Worker(Outgoing<Client<HttpConnector, Body>>);

impl Worker {
    fn new(layer: &OutgoingLayer) -> Self {
        Self(layer.layer(Client::builder(TokioExecutor::new()).build_http()))
    }

    async fn get(&self, url: &str) -> Result<StatusCode, OutgoingError<Error>> {
        let request = Request::get(url).body(Body::empty()).unwrap();
        Ok(self.0.clone().oneshot(request).await?.status())
    }
}

/// The limiters of two processes: each has its own connection to one Redis.
async fn two_limiters(redis: &RedisServer) -> [Limiter; 2] {
    let limiter = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Limiter::new(store, Secret::published())
    };
    [limiter().await, limiter().await]
}

/// The server allows 10 per second and a burst; the workers send 10 per second, evenly. What the network and a busy machine delay and
/// bring together, for up to four seconds, fits into the burst, which is smaller than what they send.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_share_a_policy_are_never_refused() {
    let redis = RedisServer::start().unwrap();
    let server = Server::start(Policy::token_bucket("served", Quota::per_second(10).burst(45))).await;
    let policy = Policy::gcra("peer", Quota::per_second(10)).wait_at_most(Duration::from_secs(30));
    let workers = two_limiters(&redis).await.map(|limiter| Worker::new(&limiter.outgoing(policy.clone())));
    let mut requests = JoinSet::new();
    for number in 0..60 {
        let (worker, url) = (workers[number % 2].clone(), server.url.clone());
        requests.spawn(async move { worker.get(&url).await.unwrap().as_u16() });
    }
    assert_eq!(requests.join_all().await, [200; 60]);
    assert_eq!(server.arrived(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_one_worker_stops_the_other() {
    let redis = RedisServer::start().unwrap();
    let server = Server::start(Policy::gcra("served", Quota::per_hour(1))).await;
    let policy = Policy::gcra("peer", Quota::per_second(1_000).burst(1_000));
    let [one, other] =
        two_limiters(&redis).await.map(|limiter| Worker::new(&limiter.outgoing(policy.clone())));
    assert_eq!(one.get(&server.url).await.unwrap(), 200);
    assert_eq!(one.get(&server.url).await.unwrap(), 429);
    for worker in [&one, &other, &one, &other] {
        let Err(OutgoingError::Limited(paced)) = worker.get(&server.url).await else { panic!() };
        // The server has stated nearly an hour.
        assert!(paced.is_closed() && paced.retry_after() <= Some(Duration::from_secs(60)));
    }
    assert_eq!(server.arrived(), 2);
}

async fn the_other_waits(server: &Server, layers: [OutgoingLayer; 2]) {
    let [one, other] = layers.map(|layer| Worker::new(&layer));
    assert_eq!(one.get(&server.url).await.unwrap(), 200);
    assert_eq!(
        one.get(&server.url).await.unwrap(),
        429,
        "the policy of the worker allows more than the server"
    );
    assert_eq!(other.get(&server.url).await.unwrap(), 200);
    assert_eq!(server.arrived(), 3);
}

/// More than the server allows, so that it refuses.
fn too_many() -> Policy {
    Policy::gcra("peer", Quota::per_second(1_000).burst(1_000)).wait_at_most(Duration::from_secs(30))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_the_other_worker_waits_in_redis() {
    let redis = RedisServer::start().unwrap();
    let server = Server::start(Policy::gcra("served", "1/4s".parse().unwrap())).await;
    let layers = two_limiters(&redis).await.map(|limiter| limiter.outgoing(too_many()));
    the_other_waits(&server, layers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_the_other_worker_waits_in_memory() {
    let server = Server::start(Policy::gcra("served", "1/4s".parse().unwrap())).await;
    let limiter = Limiter::memory();
    the_other_waits(&server, [limiter.outgoing(too_many()), limiter.outgoing(too_many())]).await;
}

/// The store of the limiter is gone: the failure mode of the policy paces, and a refusal is obeyed in the process that got it.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_obeyed_while_redis_is_down() {
    let mut redis = RedisServer::start().unwrap();
    let server = Server::start(Policy::gcra("served", Quota::per_hour(1))).await;
    let [limiter, _] = two_limiters(&redis).await;
    let worker = Worker::new(&limiter.outgoing(Policy::gcra("peer", Quota::per_second(1_000).burst(1_000))));
    assert_eq!(worker.get(&server.url).await.unwrap(), 200);
    redis.kill().unwrap();
    assert_eq!(worker.get(&server.url).await.unwrap(), 429);
    let error = worker.get(&server.url).await.unwrap_err();
    assert!(matches!(error, OutgoingError::Limited(_)), "{error}");
    assert_eq!(server.arrived(), 2);
}
