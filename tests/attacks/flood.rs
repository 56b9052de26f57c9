//! A flood from one address that exceeds the calls which the limiter can make to its store.
//!
//! Calls that exceed the waiting capacity, are not sent in time or time out are not an outage. If they were, an open policy
//! would pass them, a local one would charge them to a second budget, and a closed one would reject other clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2::SendRequest;
use portcullis::key::Global;
use portcullis::{ClientIp, FailureMode, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::per_half_century;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::raw;

type Client = SendRequest<Empty<Bytes>>;

mod stalls;

/// A server with two limited routes, over a real Redis.
struct LimitedServer {
    redis: RedisServer,
    address: SocketAddr,
    per_address: Arc<AtomicU32>,
    global: Arc<AtomicU32>,
    /// The requests that clients have seen rejected as overload.
    overloaded: Arc<AtomicU32>,
}

/// The number of responses to a flood, by status.
#[derive(Debug, Default)]
struct Answers {
    ok: u32,
    limited: u32,
    overloaded: u32,
    other: u32,
}

impl LimitedServer {
    async fn start(mode: FailureMode) -> Self {
        let redis = RedisServer::start().unwrap();
        let limiter = Limiter::redis(redis.url()).deadline(DEADLINE).await.unwrap();
        Self::of(mode, redis, &limiter).await
    }

    /// A server with this limiter on a Redis.
    async fn of(mode: FailureMode, redis: RedisServer, limiter: &Limiter) -> Self {
        let per_address =
            Policy::fixed_window("address", per_half_century(LIMIT.into())).on_store_failure(mode);
        let global = Policy::gcra("global", Quota::per_second(GLOBAL_RATE.into())).on_store_failure(mode);
        let [per_address_runs, global_runs] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
        let handler = |runs: &Arc<AtomicU32>| {
            let runs = Arc::clone(runs);
            get(async move || {
                runs.fetch_add(1, Ordering::SeqCst);
            })
        };
        let app = Router::new()
            .route(
                "/address",
                handler(&per_address_runs).layer(limiter.layer(per_address.by(ClientIp::peer()))),
            )
            .route("/global", handler(&global_runs).layer(limiter.layer(global.by(Global))));
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Self {
            redis,
            address,
            per_address: per_address_runs,
            global: global_runs,
            overloaded: Arc::default(),
        }
    }

    /// Opens an HTTP/2 connection from one of the addresses of this machine.
    async fn connect(&self, from: Ipv4Addr) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        raw::http2(stream).await
    }

    /// Sends requests from one address, over several connections with all the streams that the server permits.
    async fn flood(&self, requests: u32) -> Answers {
        let left = Arc::new(AtomicU32::new(requests));
        let mut streams = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let client = self.connect(Ipv4Addr::LOCALHOST).await;
            for _ in 0..STREAMS {
                let (client, left) = (client.clone(), Arc::clone(&left));
                streams.spawn(stream(client, left, Arc::clone(&self.overloaded)));
            }
        }
        let mut answers = Answers::default();
        while let Some(statuses) = streams.join_next().await {
            for status in statuses.unwrap() {
                *match status {
                    StatusCode::OK => &mut answers.ok,
                    StatusCode::TOO_MANY_REQUESTS => &mut answers.limited,
                    StatusCode::SERVICE_UNAVAILABLE => &mut answers.overloaded,
                    _ => &mut answers.other,
                } += 1;
            }
        }
        answers
    }

    /// Sends five requests from a new address.
    async fn send_from_new_address(&self, number: u32) {
        let [.., high, low] = (256 + number).to_be_bytes();
        let mut client = self.connect(Ipv4Addr::new(127, 0, high, low)).await;
        for _ in 0..5 {
            let (status, is_degraded) = send(&mut client, "/address").await;
            assert_eq!((status, is_degraded), (StatusCode::OK, false), "client {number}");
        }
    }

    fn runs(&self) -> u32 {
        self.per_address.load(Ordering::SeqCst)
    }
}

/// Sends requests over one stream of a flood until none are left, and returns the statuses.
async fn stream(mut client: Client, left: Arc<AtomicU32>, overloaded: Arc<AtomicU32>) -> Vec<StatusCode> {
    let mut statuses = Vec::new();
    while let Ok(before) = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
        let path = if before.is_multiple_of(10) { "/global" } else { "/address" };
        let (status, _) = send(&mut client, path).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            overloaded.fetch_add(1, Ordering::SeqCst);
        }
        statuses.push(status);
    }
    statuses
}

/// Sends a request. Returns the status, and whether a header reports that the decision was degraded.
async fn send(client: &mut Client, path: &str) -> (StatusCode, bool) {
    client.ready().await.unwrap();
    let request = Request::get(format!("http://localhost{path}")).body(Empty::new()).unwrap();
    let response = within_a_minute("response", client.send_request(request)).await.unwrap();
    (response.status(), response.headers().contains_key("x-ratelimit-degraded"))
}

async fn assert_limits_hold(mode: FailureMode, requests: u32) {
    let server = Arc::new(LimitedServer::start(mode).await);
    let started = Instant::now();
    let flood = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.flood(requests).await }
    });
    let mut clients = 0;
    while !flood.is_finished() && clients < MAX_CLIENTS {
        server.send_from_new_address(clients).await;
        clients += 1;
    }
    let answers = flood.await.unwrap();
    let elapsed = started.elapsed();
    println!("{mode}: {answers:?} in {elapsed:?}, {clients} other clients");

    assert_eq!(server.runs(), LIMIT + 5 * clients, "{mode}: handlers run for the flood and for the others");
    let global = server.global.load(Ordering::SeqCst);
    let most = f64::from(GLOBAL_RATE) * (elapsed.as_secs_f64() + 1.0) + 1.0;
    assert!(f64::from(global) <= most, "{mode}: {global} in {elapsed:?}");
    assert_eq!((answers.ok, answers.other), (LIMIT + global, 0), "{mode}: {answers:?}");
    // Right after the flood, requests are handled as before.
    server.send_from_new_address(MAX_CLIENTS).await;
    assert_eq!(server.runs(), LIMIT + 5 * (clients + 1));
}

/// 10 000 requests, with `cargo xtask test --all` 100 000.
fn longest_flood() -> u32 {
    u32::try_from(portcullis_testing::timeline::steps()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_flood_runs_ten_handlers_if_open() {
    assert_limits_hold(FailureMode::Open, longest_flood()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_runs_ten_handlers_in_every_failure_mode() {
    for mode in [FailureMode::OpenFor(Duration::from_secs(2)), FailureMode::Closed, FailureMode::local(1)] {
        assert_limits_hold(mode, longest_flood().min(20_000) / 2).await;
    }
}

/// During the pause, the flood's calls fill the waiting capacity, and the calls beyond it cannot wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_during_a_redis_pause_is_overload_not_an_outage() {
    for mode in [FailureMode::Open, FailureMode::Closed, FailureMode::local(1)] {
        let server = LimitedServer::start(mode).await;
        server.redis.signal("STOP").unwrap();
        let (answers, ()) = tokio::join!(server.flood(5_000), async {
            within_a_minute("overload", async {
                while server.overloaded.load(Ordering::SeqCst) == 0 {
                    sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
            server.redis.signal("CONT").unwrap();
        });
        println!("{mode}: {answers:?}");
        assert_eq!(server.runs(), LIMIT, "{mode}");
        assert!(answers.overloaded > 0 && answers.limited > 0, "{mode}: {answers:?}");
        server.send_from_new_address(0).await;
    }
}

const LIMIT: u32 = 10;
const GLOBAL_RATE: u32 = 100;
/// Far more than a busy machine takes for a call that is sent: slowness must not fail a test.
const DEADLINE: Duration = Duration::from_secs(60);
const CONNECTIONS: u32 = 8;
/// The number of streams that hyper permits per connection.
const STREAMS: u32 = 200;
const MAX_CLIENTS: u32 = 200;
