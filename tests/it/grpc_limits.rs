//! Limits of a gRPC service other than rates, from a real Tonic server to real clients, on memory and on Redis: calls in flight,
//! lock-outs, calls that wait, outcomes, debts, warnings, and limits that are tried out.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Request;
use portcullis::charge::{ResponseOutcome, Usage};
use portcullis::event::{Event, EventKind};
use portcullis::layer::{Concurrency, LockOut, Mode};
use portcullis::{Charge, ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_servers::within_a_minute;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::grpc::listen;
use crate::handler_checks::limiters;

const DAY: Duration = Duration::from_secs(86_400);
/// The addresses of two clients.
const ADA: [u8; 4] = [127, 0, 0, 1];
const BOB: [u8; 4] = [127, 0, 0, 2];

/// A service whose calls do what the test prepares.
#[derive(Clone, Default)]
struct Jobs {
    /// By call of `watch`, what it streams.
    streams: Arc<Mutex<VecDeque<mpsc::Receiver<Reply>>>>,
    /// The end of the task that the next call of `check` starts.
    task: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
}

type Reply = Result<HealthCheckResponse, Status>;

#[tonic::async_trait]
impl Health for Jobs {
    async fn check(
        &self,
        call: tonic::Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if let Some(end) = self.task.lock().unwrap().take() {
            // The permit of the call moves into a task, which outlives the response.
            let permit = call.extensions().get::<Charge>().unwrap().take_permit();
            tokio::spawn(async move {
                let _permit = permit;
                let _ = end.await;
            });
        }
        if let Ok(tokens) = call.get_ref().service.parse() {
            call.extensions().get::<Usage>().unwrap().add(tokens);
        }
        match call.get_ref().service.as_str() {
            "wrong password" => Err(Status::unauthenticated("")),
            _ => Ok(Response::new(HealthCheckResponse::default())),
        }
    }

    type WatchStream = ReceiverStream<Reply>;

    async fn watch(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let replies = self.streams.lock().unwrap().pop_front().expect("the test prepares the stream first");
        Ok(Response::new(ReceiverStream::new(replies)))
    }
}

struct Service {
    jobs: Jobs,
    url: String,
}

impl Service {
    async fn start(layer: RateLimitLayer) -> Self {
        let (jobs, (incoming, url)) = (Jobs::default(), listen().await);
        let server = Server::builder().layer(layer).add_service(HealthServer::new(jobs.clone()));
        tokio::spawn(server.serve_with_incoming(incoming));
        Self { jobs, url }
    }

    /// A client at an address of its own.
    async fn client(&self, address: [u8; 4]) -> Client {
        let endpoint = Endpoint::from_shared(self.url.clone()).unwrap().local_address(Some(address.into()));
        Client { jobs: self.jobs.clone(), inner: HealthClient::new(endpoint.connect().await.unwrap()) }
    }
}

#[derive(Clone)]
struct Client {
    jobs: Jobs,
    inner: HealthClient<Channel>,
}

impl Client {
    async fn call(&mut self, job: &str) -> Result<Response<HealthCheckResponse>, Status> {
        self.inner.check(HealthCheckRequest { service: job.to_owned() }).await
    }

    /// Starts a call that streams what is sent to the channel.
    async fn watch(&mut self) -> (tonic::Streaming<HealthCheckResponse>, mpsc::Sender<Reply>) {
        let (sender, replies) = mpsc::channel(1);
        self.jobs.streams.lock().unwrap().push_back(replies);
        (self.inner.watch(HealthCheckRequest::default()).await.unwrap().into_inner(), sender)
    }

    async fn is_limited(&mut self) -> Status {
        let status = self.call("").await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        status
    }
}

fn text<'a>(status: &'a Status, name: &str) -> Option<&'a str> {
    status.metadata().get(name).map(|value| value.to_str().unwrap())
}

/// Milliseconds after which a client may retry.
fn pushback(status: &Status) -> Duration {
    let millis = text(status, "grpc-retry-pushback-ms").unwrap().parse().unwrap();
    let seconds: u128 = text(status, "retry-after").unwrap().parse().unwrap();
    let wait = Duration::from_millis(millis);
    assert_eq!(wait.as_millis().div_ceil(1_000), seconds);
    wait
}

/// The key of a client, as the layers here charge it.
fn key_of(limiter: &Limiter, address: [u8; 4]) -> portcullis::key::Key {
    let request = Request::builder().extension(SocketAddr::new(IpAddr::from(address), 0)).body(()).unwrap();
    limiter.key_of(&ClientIp::peer(), request).unwrap()
}

const CALLS: Policy = Policy::fixed_window("calls", Quota::per_week(1_000));
const EXPORTS: Concurrency = Concurrency::new("exports", 1);

async fn until_free(limiter: &Limiter) {
    let free = async {
        while limiter.peek(&EXPORTS.policy(), key_of(limiter, ADA)).await.unwrap().remaining() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within_a_minute("a permit is released", free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_of_a_client_is_in_flight_at_a_time() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let service = Service::start(limiter.layer(CALLS.by(ClientIp::peer())).and(EXPORTS)).await;
        let (mut ada, mut bob) = (service.client(ADA).await, service.client(BOB).await);
        for _ in 0..3 {
            ada.call("").await.unwrap();
            until_free(&limiter).await;
        }

        // A stream is in flight until its trailers are sent.
        let (mut stream, replies) = ada.watch().await;
        replies.send(Ok(HealthCheckResponse::default())).await.unwrap();
        assert!(stream.message().await.unwrap().is_some());
        let status = ada.is_limited().await;
        assert_eq!(status.message(), "too many requests of this client are in progress");
        assert_eq!(
            (text(&status, "x-ratelimit-limit"), text(&status, "x-ratelimit-remaining")),
            (Some("1"), Some("0"))
        );
        // It is not known when the stream ends.
        assert_eq!((text(&status, "grpc-retry-pushback-ms"), text(&status, "retry-after")), (None, None));
        bob.call("").await.unwrap();
        drop(replies);
        assert!(stream.message().await.unwrap().is_none());
        until_free(&limiter).await;

        // A client that cancels its call frees the permit as well.
        let (stream, _replies) = ada.watch().await;
        ada.is_limited().await;
        drop(stream);
        until_free(&limiter).await;

        // A task holds the permit of its call.
        let (done, end) = oneshot::channel();
        *service.jobs.task.lock().unwrap() = Some(end);
        ada.call("").await.unwrap();
        ada.is_limited().await;
        done.send(()).unwrap();
        until_free(&limiter).await;
        ada.call("").await.unwrap();
    }
}

const PASSWORDS: Policy = Policy::fixed_window("passwords", Quota::per_week(1));

#[tokio::test(flavor = "multi_thread")]
async fn client_that_calls_on_is_locked_out() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let lock_out = LockOut::after(6).within(DAY).block_for(DAY);
        let service = Service::start(limiter.layer(PASSWORDS.by(ClientIp::peer()).lock_out(lock_out))).await;
        let (mut ada, mut bob) = (service.client(ADA).await, service.client(BOB).await);
        ada.call("").await.unwrap();
        let is_blocked = |status: &Status| {
            let is_blocked = String::from_utf8_lossy(status.details()).contains("BLOCKED");
            assert_eq!(is_blocked, status.message().starts_with("this client is blocked: retry after "));
            is_blocked
        };
        // Denials are reported to the store in the background.
        within_a_minute("the client is locked out", async {
            while !is_blocked(&ada.is_limited().await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert!(pushback(&ada.is_limited().await) <= DAY);
        bob.call("").await.unwrap();

        limiter.unblock(&PASSWORDS, key_of(&limiter, ADA)).await.unwrap();
        within_a_minute("the block is lifted", async {
            while is_blocked(&ada.is_limited().await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert!(pushback(&ada.is_limited().await) > Duration::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_their_turn() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let rate = Policy::gcra("rate", Quota::per_second(20)).wait_at_most(Duration::from_secs(60));
        let client = Service::start(limiter.layer(rate.by(ClientIp::peer()))).await.client(ADA).await;
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            let mut client = client.clone();
            calls.spawn(async move { client.call("").await.is_ok() });
        }
        assert_eq!(calls.join_all().await, [true; 10]);

        // A call whose deadline ends while it waits gives up its slot, so that those after it are not later.
        let minutely =
            Policy::gcra("minutely", Quota::per_minute(1)).wait_at_most(Duration::from_secs(3_600));
        let layer = limiter.layer(minutely.clone().by(ClientIp::peer()));
        let mut ada = Service::start(layer).await.client(ADA).await;
        ada.call("").await.unwrap();
        let mut call = tonic::Request::new(HealthCheckRequest::default());
        call.set_timeout(Duration::from_millis(100));
        let status = ada.inner.check(call).await.unwrap_err();
        assert!([Code::Cancelled, Code::DeadlineExceeded].contains(&status.code()), "{status:?}");
        within_a_minute("the slot is given up", async {
            let minute = Duration::from_secs(60);
            while limiter.peek(&minutely, key_of(&limiter, ADA)).await.unwrap().reset_after() > minute {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;

        // A wait that would be too long is rejected at once.
        let hourly = Policy::token_bucket("hourly", Quota::per_hour(1)).wait_at_most(Duration::from_secs(60));
        let mut ada = Service::start(limiter.layer(hourly.by(ClientIp::peer()))).await.client(ADA).await;
        ada.call("").await.unwrap();
        assert!(pushback(&ada.is_limited().await) > Duration::from_secs(60));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_charged_for_their_status_after_it() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let is_wrong =
            |outcome: &ResponseOutcome<'_>| outcome.grpc_status() == Some(Code::Unauthenticated as i32);
        let layer =
            limiter.layer(PASSWORDS.by(ClientIp::peer()).charge_when(is_wrong).charge_after_at_most(3));
        let mut ada = Service::start(layer).await.client(ADA).await;
        // Three streams with the right password pass at once, though the limit is one wrong password.
        let streams = [ada.watch().await, ada.watch().await, ada.watch().await];
        let status = ada.is_limited().await;
        assert_eq!(text(&status, "grpc-retry-pushback-ms"), None, "nobody knows when one of them ends");
        for (mut stream, replies) in streams {
            drop(replies);
            assert!(stream.message().await.unwrap().is_none());
        }
        within_a_minute("the streams are settled", async {
            while ada.call("").await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(ada.call("wrong password").await.unwrap_err().code(), Code::Unauthenticated);
        assert!(pushback(&ada.is_limited().await) > Duration::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_charged_usage_up_to_a_debt() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let uncharged = Arc::<Mutex<Vec<u64>>>::default();
        let seen = Arc::clone(&uncharged);
        let limiter = limiter.observe(move |event: &Event<'_>| {
            if let EventKind::DebtExceeded { uncharged, .. } = event.kind {
                seen.lock().unwrap().push(uncharged);
            }
        });
        let tokens = Policy::fixed_window("tokens", Quota::per_week(100));
        let layer = limiter.layer(tokens.by(ClientIp::peer()).reserve(10));
        let mut ada = Service::start(layer).await.client(ADA).await;
        for (used, left) in [("30", "90"), ("0", "60"), ("350", "60")] {
            let reply = ada.call(used).await.unwrap();
            assert_eq!(reply.metadata().get("x-ratelimit-remaining").unwrap(), left, "10 are reserved");
            assert_eq!(limiter.drain(Duration::from_secs(60)).await.left, 0);
        }
        // 30 of 100 were used. 170 are charged, which is the limit beyond the limit, and 180 are not.
        assert_eq!(*uncharged.lock().unwrap(), [180]);
        assert!(pushback(&ada.is_limited().await) > Duration::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_near_the_limit_are_warned_and_retries_spread() {
    let (_redis, limiters) = limiters().await;
    let (ten_days, hour) = (10 * DAY, Duration::from_secs(3_600));
    for limiter in limiters {
        let pages = Policy::token_bucket("pages", Quota::new(1, ten_days, Some(5)).unwrap());
        let layer = limiter.layer(pages.by(ClientIp::peer()).warn_at(0.8)).spread_retries(hour);
        let service = Service::start(layer).await;
        let mut waits = Vec::new();
        for address in [ADA, BOB] {
            let mut client = service.client(address).await;
            for is_warned in [false, false, false, true, true] {
                let reply = client.call("").await.unwrap();
                let warning = reply.metadata().get("x-ratelimit-warning");
                assert_eq!(warning.map(|value| value.to_str().unwrap()), is_warned.then_some(r#""pages""#));
            }
            waits.push(pushback(&client.is_limited().await));
        }
        assert!(waits[0] != waits[1] && waits.iter().all(|wait| *wait <= ten_days + hour), "{waits:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_mode_enforces_the_limit() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let would_reject = Arc::<AtomicUsize>::default();
        let seen = Arc::clone(&would_reject);
        let limiter = limiter.observe(move |event: &Event<'_>| {
            if let EventKind::ShadowWouldReject { .. } = event.kind {
                seen.fetch_add(1, Relaxed);
            }
        });
        let planned = Policy::fixed_window("planned", Quota::per_week(1));
        let layer = limiter.layer(planned.clone().by(ClientIp::peer()).mode(Mode::Shadow));
        let mut ada = Service::start(layer).await.client(ADA).await;
        ada.call("").await.unwrap();
        ada.call("").await.unwrap();
        assert_eq!(would_reject.load(Relaxed), 1);
        limiter.set_mode(planned.name(), Mode::Enforce).unwrap();
        assert!(pushback(&ada.is_limited().await) > Duration::ZERO);
        limiter.set_mode(planned.name(), Mode::Off).unwrap();
        assert!(ada.call("").await.unwrap().metadata().get("x-ratelimit-limit").is_none());
    }
}
