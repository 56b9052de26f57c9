//! Streams that reserve units and are charged what they used, from a real server to a real client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, Response};
use axum::{Router, routing::get};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use portcullis::charge::{Drained, Usage};
use portcullis::event::{Event, EventKind, SettlementLoss};
use portcullis::key::{Global, Header};
use portcullis::{FailureMode, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_core::{StoreError, StoreErrorKind};
use portcullis_servers::{Fault, FaultProxy, RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::listen;
use crate::handler_checks::limiters;
use crate::process::Process;

const TOKENS: Policy =
    Policy::fixed_window("tokens", Quota::per_week(100)).on_store_failure(FailureMode::Closed);

/// A server whose responses stream the chunks that the test sends. Each request reserves 10 tokens.
struct Server {
    limiter: Limiter,
    url: String,
    client: HttpClient,
    streams: Streams,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// By request, the numbers of tokens of the chunks to stream.
type Streams = Arc<Mutex<VecDeque<mpsc::Receiver<u64>>>>;

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Uncharged(u64),
    Lost { reserved: u64, used: u64, cause: SettlementLoss },
}

/// The body counts the tokens of each chunk when it is sent.
async fn complete(State(streams): State<Streams>, usage: Usage) -> Body {
    let chunks = streams.lock().unwrap().pop_front().expect("the test prepares the stream first");
    Body::from_stream(ReceiverStream::new(chunks).map(move |tokens| {
        usage.add(tokens);
        Ok::<_, Infallible>(Bytes::from("token"))
    }))
}

impl Server {
    async fn start(limiter: Limiter) -> Self {
        let (streams, seen) = (Streams::default(), Arc::<Mutex<Vec<Seen>>>::default());
        let observed = Arc::clone(&seen);
        let limiter = limiter.observe(move |event: &Event<'_>| {
            observed.lock().unwrap().push(match event.kind {
                EventKind::DebtExceeded { uncharged, .. } => Seen::Uncharged(uncharged),
                EventKind::SettlementLost { reserved, used, cause, .. } => {
                    Seen::Lost { reserved, used, cause }
                }
                _ => return,
            });
        });
        let layer = limiter.layer(TOKENS.by(Header::named("x-user")).reserve(10));
        let app = Router::new().route("/", get(complete)).layer(layer).with_state(Arc::clone(&streams));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { limiter, url, client: HttpClient::http_1(), streams, seen }
    }

    /// Starts a response, and returns it with what it streams.
    async fn request(&self) -> (Response<Incoming>, mpsc::Sender<u64>) {
        let (chunks, streamed) = mpsc::channel(1);
        self.streams.lock().unwrap().push_back(streamed);
        let response = self.client.start(Request::get(&self.url).header("x-user", "ada"), ()).await;
        assert_eq!(response.status(), 200);
        (response, chunks)
    }

    /// What remains once all settlements are made.
    async fn remaining(&self) -> u64 {
        assert_eq!(self.drain().await, (0, 0));
        let ada = self
            .limiter
            .key(|key| {
                key.part("header", b"ada");
                key.part("header name", b"x-user");
            })
            .unwrap();
        self.limiter.peek(&TOKENS, ada).await.unwrap().remaining()
    }

    async fn drain(&self) -> (usize, u64) {
        let Drained { left, units, .. } = self.limiter.drain(Duration::from_secs(60)).await;
        (left, units)
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Waits until the store certainly does nothing with a call.
    async fn wait_until_unavailable(&self) {
        let ada = self.limiter.key(|key| key.part("user", b"ada")).unwrap();
        let connections = || {
            let mut open = 0;
            self.limiter.store().figures(&mut |figure| {
                open = if figure.name == "connections" { figure.value } else { open };
            });
            open
        };
        let is_unavailable = |error: StoreError| error.kind() == StoreErrorKind::Unavailable;
        let failure = async {
            // Another connection may still take a call, whose fate is unknown then.
            while connections() > 0 || !self.limiter.peek(&TOKENS, ada).await.is_err_and(is_unavailable) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within_a_minute("outage", failure).await;
    }
}

async fn redis(url: String) -> Limiter {
    Limiter::redis(url).deadline(Duration::from_secs(5)).await.unwrap()
}

/// A server on a store in memory, and one on Redis.
async fn on_both_stores() -> (RedisServer, [Server; 2]) {
    let server = RedisServer::start().unwrap();
    let limiter = redis(server.url()).await;
    (server, [Server::start(Limiter::memory()).await, Server::start(limiter).await])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_charged_what_it_used() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        let (response, chunks) = server.request().await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], "90", "the figure at the reservation");
        for tokens in [20, 5] {
            chunks.send(tokens).await.unwrap();
        }
        drop(chunks);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "tokentoken");
        assert_eq!(server.remaining().await, 75);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_left_half_way_is_charged_what_it_used() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        let (response, chunks) = server.request().await;
        let mut body = response.into_body();
        for tokens in [1, 2] {
            chunks.send(tokens).await.unwrap();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "token");
        }
        drop(body);
        within_a_minute("end of the stream", chunks.closed()).await;
        // The settlement follows the end of the stream.
        let settled = async {
            while server.remaining().await != 97 {
                tokio::task::yield_now().await;
            }
        };
        within_a_minute("settlement", settled).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_streams_beyond_the_debt_leave_units_uncharged() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        let mut streams = Vec::new();
        for _ in 0..6 {
            streams.push(server.request().await);
        }
        for (response, chunks) in streams {
            chunks.send(60).await.unwrap();
            drop(chunks);
            response.into_body().collect().await.unwrap();
            assert_eq!(server.drain().await, (0, 0));
        }
        // 60 are reserved, and each settlement adds 50, up to twice the limit.
        assert_eq!(server.seen(), [10, 50, 50, 50].map(Seen::Uncharged));
        assert_eq!(server.remaining().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_during_an_outage_is_made_afterwards() {
    let redis_server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(redis_server.port()).unwrap();
    let url = redis_server.url().replace(&redis_server.port().to_string(), &proxy.port().to_string());
    let server = Server::start(redis(url).await).await;
    let (response, chunks) = server.request().await;
    chunks.send(4).await.unwrap();

    proxy.set_fault(Fault::Refuse);
    proxy.close_connections();
    server.wait_until_unavailable().await;
    drop(chunks);
    response.into_body().collect().await.unwrap();
    let Drained { left, units, .. } = server.limiter.drain(Duration::from_millis(200)).await;
    assert_eq!((left, units), (1, 6), "a drain returns what is left at its deadline");

    proxy.set_fault(Fault::None);
    assert_eq!(server.remaining().await, 96);
    assert!(server.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_survives_a_restart_of_redis() {
    let mut redis_server = RedisServer::start().unwrap();
    let server = Server::start(redis(redis_server.url()).await).await;
    let (response, chunks) = server.request().await;
    chunks.send(40).await.unwrap();
    redis_server.kill().unwrap();
    server.wait_until_unavailable().await;
    drop(chunks);
    response.into_body().collect().await.unwrap();
    redis_server.restart().unwrap();
    // The server is empty, so only the 30 units are there that were used beyond the reservation.
    assert_eq!(server.remaining().await, 70);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_without_a_reply_is_told_and_not_repeated() {
    let redis_server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(redis_server.port()).unwrap();
    let url = redis_server.url().replace(&redis_server.port().to_string(), &proxy.port().to_string());
    let server = Server::start(redis(url).await).await;
    let (response, chunks) = server.request().await;
    chunks.send(4).await.unwrap();
    // Of no other command, after which the settlement would not be sent.
    proxy.set_fault(Fault::CutReplyTo("EVALSHA"));
    drop(chunks);
    response.into_body().collect().await.unwrap();
    assert_eq!(server.drain().await, (0, 0));
    assert_eq!(server.seen(), [Seen::Lost { reserved: 10, used: 4, cause: SettlementLoss::Unknown }]);

    proxy.set_fault(Fault::None);
    // Redis has made it, which the process cannot know; a second refund would free 6 more.
    let (next, chunks) = within_a_minute("connection", async {
        loop {
            let ada = server.limiter.key(|key| key.part("user", b"ada")).unwrap();
            if server.limiter.peek(&TOKENS, ada).await.is_ok() {
                return server.request().await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(next.headers()["x-ratelimit-remaining"], "86");
    drop(chunks);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_call_is_charged_what_it_used() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let policy = Policy::fixed_window("units", Quota::per_week(100));
        let layer = limiter.layer(policy.by(Global).reserve(10));
        // In place of a handler, which has the same extensions.
        let count = |call: tonic::Request<()>| {
            call.extensions().get::<Usage>().unwrap().add(3);
            Ok(call)
        };
        let service = InterceptedService::new(tonic_health::server::health_reporter().1, count);
        let (incoming, url) = listen().await;
        let server = tonic::transport::Server::builder().layer(layer).add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = HealthClient::new(channel);
        for remaining in ["90", "87", "84"] {
            let answer = client.check(HealthCheckRequest::default()).await.unwrap();
            assert_eq!(answer.metadata().get("x-ratelimit-remaining").unwrap(), remaining);
            // The settlement follows the trailers.
            assert_eq!(limiter.drain(Duration::from_secs(60)).await.left, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_leaves_its_reservations_charged() {
    let redis_server = RedisServer::start().unwrap();
    let client = HttpClient::http_1();
    for remaining in ["90", "80"] {
        let server = Process::shared_budget(&redis_server.url(), 100).await;
        let response = client.start(Request::get(format!("{}/reserved", server.url)), ()).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
        // It has used 1 of the 10 tokens that it has reserved when the process is killed.
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        drop(server);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_settles_its_reservations() {
    let redis_server = RedisServer::start().unwrap();
    let client = HttpClient::http_1();
    for remaining in [["90", "80"], ["88", "78"]] {
        let server = Process::shared_budget(&redis_server.url(), 100).await;
        let mut bodies = Vec::new();
        for remaining in remaining {
            let response = client.start(Request::get(format!("{}/reserved", server.url)), ()).await;
            assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
            bodies.push(response.into_body());
            // It has used 1 of the 10 tokens that it has reserved when the process is stopped.
            assert!(bodies.last_mut().unwrap().frame().await.unwrap().unwrap().is_data());
        }
        assert_eq!(server.stop().await, (0, 0), "settlements that are left or lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_an_outage_settles_after_it() {
    let redis_server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(redis_server.port()).unwrap();
    let url = redis_server.url().replace(&redis_server.port().to_string(), &proxy.port().to_string());
    let server = Process::shared_budget(&url, 100).await;
    let client = HttpClient::http_1();
    let response = client.start(Request::get(format!("{}/reserved", server.url)), ()).await;
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().unwrap().is_data());

    proxy.set_fault(Fault::Refuse);
    proxy.close_connections();
    // The first answers may come from a client that does not know yet that its connection has ended, and would send the settlement on it.
    let outage = async {
        for _ in 0..20 {
            while server.get("/closed").await.status() != 503 {}
        }
    };
    within_a_minute("outage", outage).await;
    // The stream ends because the process is stopped, and Redis is back only afterwards.
    let end = async {
        body.collect().await.unwrap();
        proxy.set_fault(Fault::None);
    };
    let (drained, ()) = tokio::join!(server.stop(), end);
    assert_eq!(drained, (0, 0), "settlements that are left or lost");

    let server = Process::shared_budget(&redis_server.url(), 100).await;
    let response = client.start(Request::get(format!("{}/reserved", server.url)), ()).await;
    assert_eq!(response.headers()["x-ratelimit-remaining"], "89", "1 token is used, and 10 are reserved");
}
