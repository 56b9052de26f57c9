//! Outgoing requests of two processes that share a store, on tokio's paused clock.
#![allow(clippy::unwrap_used, reason = "helpers of tests may do what tests may")]

mod allocations;
mod by_policy;
mod store;
mod waits;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::store::Store;
use portcullis_core::{Clock, FailureMode, Policy, Quota, Secret, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_outgoing::{Outgoing, OutgoingError, OutgoingLayer, RemainingHeaders, ResetFormat};
use portcullis_tower::{
    Event, EventKind, Header, Identity, KeyError, KeyWriter, LayerError, Reason, Registry,
};
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use store::PlainStore;

/// Tokio's clock, which is paused in these tests. It starts at a whole hour.
#[derive(Clone)]
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(Duration::from_secs(3_600_000) + self.0.elapsed())
    }
}

/// The server of others: gives its next answer, and notes when it was asked.
#[derive(Clone)]
struct Peer {
    start: Instant,
    answers: Arc<Mutex<Vec<Response<()>>>>,
    /// In milliseconds.
    asked: Arc<Mutex<Vec<u128>>>,
}

type Client = Outgoing<BoxCloneSyncService<Request<NotClone>, Response<()>, Infallible>>;

/// A body that cannot be repeated.
struct NotClone;

impl Peer {
    fn new() -> Self {
        Self { start: Instant::now(), answers: Arc::default(), asked: Arc::default() }
    }

    /// Adds an answer. Without one, all is well.
    fn will_answer(&self, status: u16, headers: &[(&str, &str)]) {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        self.answers.lock().unwrap().insert(0, answer.body(()).unwrap());
    }

    /// A client under a layer.
    fn client(&self, layer: &OutgoingLayer) -> Client {
        let Self { start, answers, asked } = self.clone();
        layer.layer(BoxCloneSyncService::new(service_fn(move |_: Request<NotClone>| {
            asked.lock().unwrap().push(start.elapsed().as_millis());
            let answer = answers.lock().unwrap().pop().unwrap_or_default();
            std::future::ready(Ok(answer))
        })))
    }

    /// When it was asked.
    fn asked(&self) -> Vec<u128> {
        self.asked.lock().unwrap().clone()
    }
}

fn get(uri: &str) -> Request<NotClone> {
    Request::get(uri).body(NotClone).unwrap()
}

async fn send(client: &Client) -> Result<u16, OutgoingError<Infallible>> {
    send_to(client, "https://api.example.com/v1").await
}

async fn send_to(client: &Client, uri: &str) -> Result<u16, OutgoingError<Infallible>> {
    client.clone().oneshot(get(uri)).await.map(|response| response.status().as_u16())
}

/// The time in milliseconds after which a request that was not sent may be, and whether its key is closed.
#[track_caller]
fn not_sent(answer: Result<u16, OutgoingError<Infallible>>) -> (u128, bool) {
    match answer {
        Err(OutgoingError::Limited(paced)) => {
            (paced.retry_after().expect("the time is known").as_millis(), paced.is_closed())
        }
        other => panic!("{other:?}"),
    }
}

/// Limiters that share a store, as those of two processes do.
fn processes<const N: usize>() -> [Arc<Registry>; N] {
    let store = Arc::new(MemoryStore::builder().clock(Virtual(Instant::now())).build());
    std::array::from_fn(|_| {
        Arc::new(Registry::new(Arc::clone(&store) as Arc<dyn Store>, Secret::published()))
    })
}

fn ten_per_second() -> Policy {
    Policy::gcra("peer", Quota::per_second(10).burst(2))
}

#[tokio::test(start_paused = true)]
async fn processes_share_the_budget_of_a_host() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let clients = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, ten_per_second())));
    assert_eq!(send(&clients[0]).await.unwrap(), 200);
    assert_eq!(send(&clients[1]).await.unwrap(), 200);
    assert_eq!(not_sent(send(&clients[0]).await), (100, false));
    assert_eq!(not_sent(send(&clients[1]).await), (100, false));
    assert_eq!(send_to(&clients[0], "https://other.example.com").await.unwrap(), 200);
    assert_eq!(peer.asked(), [0, 0, 0], "what is over the budget is not sent");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_closes_the_key_in_all_processes() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let clients = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, ten_per_second())));
    peer.will_answer(429, &[("retry-after", "30")]);
    assert_eq!(send(&clients[0]).await.unwrap(), 429, "the answer is passed on");
    for client in &clients {
        assert_eq!(not_sent(send(client).await), (30_000, true));
        assert_eq!(send_to(client, "https://other.example.com").await.unwrap(), 200);
    }
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(send(&clients[1]).await.unwrap(), 200);
    assert_eq!(send(&clients[0]).await.unwrap(), 200);
    assert_eq!(peer.asked(), [0, 0, 0, 30_000, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_refusal_does_not_shorten_a_longer_one() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let clients = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, ten_per_second())));
    peer.will_answer(429, &[("retry-after", "30")]);
    peer.will_answer(429, &[("retry-after", "1")]);
    // Both are sent before the first answer is read.
    let [mut one, mut other] = clients.clone();
    let (longer, shorter) = (one.call(get("http://a")), other.call(get("http://a")));
    assert_eq!(longer.await.unwrap().status(), 429);
    assert_eq!(shorter.await.unwrap().status(), 429);
    tokio::time::advance(Duration::from_secs(2)).await;
    for client in &clients {
        assert_eq!(not_sent(send_to(client, "http://a").await), (28_000, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hostile_time_is_capped() {
    let (peer, [registry]) = (Peer::new(), processes());
    let layer = OutgoingLayer::new(registry, ten_per_second());
    let short = layer.clone().closed_at_most(Duration::from_secs(5));
    for (layer, host, closed) in [(layer, "http://a", 60_000), (short, "http://b", 5_000)] {
        let client = peer.client(&layer);
        peer.will_answer(429, &[("retry-after", "999999999")]);
        assert_eq!(send_to(&client, host).await.unwrap(), 429);
        assert_eq!(not_sent(send_to(&client, host).await), (closed, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_refuses_is_left_alone() {
    let (peer, [registry]) = (Peer::new(), processes());
    let policy = ten_per_second().wait_at_most(Duration::from_secs(2));
    let client =
        peer.client(&OutgoingLayer::new(registry, policy).closed_without_hint(Duration::from_secs(2)));
    for _ in 0..5 {
        peer.will_answer(429, &[("retry-after", "-1")]);
        assert_eq!(send(&client).await.unwrap(), 429);
    }
    assert_eq!(peer.asked(), [0, 2_000, 4_000, 6_000, 8_000]);
}

#[tokio::test(start_paused = true)]
async fn nothing_remaining_closes_the_key_if_that_is_set() {
    let (peer, [registry]) = (Peer::new(), processes());
    let layer = OutgoingLayer::new(registry, ten_per_second())
        .remaining_headers(RemainingHeaders::x_ratelimit(ResetFormat::Seconds));
    let empty = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")];
    for (layer, host, next) in
        [(layer.clone(), "http://a", Some(200)), (layer.close_at_zero(), "http://b", None)]
    {
        let client = peer.client(&layer);
        peer.will_answer(200, &empty);
        assert_eq!(send_to(&client, host).await.unwrap(), 200);
        let answer = send_to(&client, host).await;
        match next {
            Some(status) => assert_eq!(answer.unwrap(), status),
            None => assert_eq!(not_sent(answer), (7_000, true)),
        }
    }
}

/// As the page of outgoing requests shows it.
#[tokio::test(start_paused = true)]
async fn github_is_left_alone_until_its_reset() {
    let (peer, [registry]) = (Peer::new(), processes());
    let client = peer.client(
        &OutgoingLayer::new(registry, ten_per_second())
            .remaining_headers(RemainingHeaders::x_ratelimit(ResetFormat::UnixSeconds))
            .close_at_zero()
            .closed_at_most(Duration::from_secs(3_600)),
    );
    let left = |remaining| {
        [
            ("date", "Tue, 14 Nov 2023 22:13:20 GMT"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", "1700003000"),
        ]
    };
    // No permission, the secondary limit, and the budget of the hour.
    peer.will_answer(403, &left("4999"));
    assert_eq!(send(&client).await.unwrap(), 403);
    peer.will_answer(403, &[&left("4998")[..], &[("retry-after", "60")]].concat());
    assert_eq!(send(&client).await.unwrap(), 403);
    assert_eq!(not_sent(send(&client).await), (60_000, true));
    tokio::time::advance(Duration::from_secs(60)).await;
    peer.will_answer(403, &left("0"));
    assert_eq!(send(&client).await.unwrap(), 403);
    assert_eq!(not_sent(send(&client).await), (3_000_000, true));
}

#[tokio::test(start_paused = true)]
async fn each_pair_of_headers_is_read() {
    let (peer, [registry]) = (Peer::new(), processes());
    let named = |what| {
        let (remaining, reset) =
            (format!("x-ratelimit-remaining-{what}"), format!("x-ratelimit-reset-{what}"));
        RemainingHeaders::named(&remaining, &reset, ResetFormat::Seconds)
    };
    let layer = OutgoingLayer::new(registry, ten_per_second());
    let layer = layer.remaining_headers(named("requests")).remaining_headers(named("tokens"));
    let client = peer.client(&layer.closed_at_most(Duration::from_secs(600)));
    for (host, empty, reset, length) in [
        ("http://a", "x-ratelimit-remaining-requests", ("x-ratelimit-reset-requests", "6m0s"), 360_000),
        ("http://b", "x-ratelimit-remaining-tokens", ("x-ratelimit-reset-tokens", "90s"), 90_000),
    ] {
        peer.will_answer(429, &[(empty, "0"), reset]);
        assert_eq!(send_to(&client, host).await.unwrap(), 429);
        assert_eq!(not_sent(send_to(&client, host).await), (length, true));
    }
}

#[tokio::test(start_paused = true)]
async fn the_account_may_be_the_key() {
    let (peer, [registry]) = (Peer::new(), processes());
    let client = peer.client(&OutgoingLayer::new(registry, ten_per_second()).by(Header::named("x-account")));
    let send = async |account: &str| {
        let request =
            Request::get("https://a.example.com").header("x-account", account).body(NotClone).unwrap();
        client.clone().oneshot(request).await.map(|response| response.status().as_u16())
    };
    peer.will_answer(429, &[("retry-after", "9")]);
    assert_eq!(send("acme").await.unwrap(), 429);
    assert_eq!(not_sent(send("acme").await), (9_000, true));
    assert_eq!(send("umbrella").await.unwrap(), 200);
    let Err(OutgoingError::Key(error)) = send_to(&client, "https://a.example.com").await else { panic!() };
    assert_eq!(error.to_string(), "it has no key: header x-account");
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_key_are_sent_or_are_an_error() {
    let (peer, [registry]) = (Peer::new(), processes());
    let layer = OutgoingLayer::new(registry, Policy::gcra("peer", Quota::per_hour(1)));
    assert!(matches!(send_to(&peer.client(&layer), "/v1").await, Err(OutgoingError::Key(_))));
    let exempt =
        layer.by(|_: &http::request::Parts, _: &mut KeyWriter<'_>| Ok::<_, KeyError>(Identity::Exempt));
    for _ in 0..3 {
        peer.will_answer(429, &[("retry-after", "9")]);
        assert_eq!(send(&peer.client(&exempt)).await.unwrap(), 429);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_is_off_sends_everything() {
    let (peer, registry) = (Peer::new(), Arc::new(Registry::off()));
    let client = peer.client(&OutgoingLayer::new(registry, Policy::gcra("peer", Quota::per_hour(1))));
    for uri in ["https://a.example.com", "https://a.example.com", "/no-host"] {
        peer.will_answer(429, &[("retry-after", "9")]);
        assert_eq!(send_to(&client, uri).await.unwrap(), 429);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_follows_the_failure_mode() {
    let store = Arc::<PlainStore>::default();
    let closed = Policy::gcra("closed", Quota::per_second(10)).on_store_failure(FailureMode::Closed);
    let open = Policy::gcra("open", Quota::per_second(10)).on_store_failure(FailureMode::Open);
    let (peer, registry) = (Peer::new(), store.registry());
    let closed = peer.client(&OutgoingLayer::new(Arc::clone(&registry), closed));
    let open = peer.client(&OutgoingLayer::new(registry, open));
    store.fail();
    let Err(OutgoingError::Undecided(limited)) = send(&closed).await else { panic!() };
    assert_eq!((limited.reason(), limited.status().as_u16()), (Reason::StoreFailed, 503));
    // What the server wants is obeyed in this process, also while the store fails.
    peer.will_answer(429, &[("retry-after", "9")]);
    assert_eq!(send(&open).await.unwrap(), 429);
    assert_eq!(not_sent(send(&open).await), (9_000, true));
}

#[tokio::test(start_paused = true)]
async fn observers_see_what_closes_a_key() {
    // This store keeps no blocks.
    let (peer, registry) = (Peer::new(), Arc::<PlainStore>::default().registry());
    let events = Arc::<Mutex<Vec<String>>>::default();
    let list = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        let text = match event.kind {
            EventKind::OutgoingClosed { policy, length, is_capped } => {
                format!("closed {policy} {length:?} {is_capped}")
            }
            EventKind::OutgoingHintIgnored { policy, header } => format!("ignored {policy} {header}"),
            EventKind::OutgoingNotShared { policy } => format!("not shared {policy}"),
            EventKind::Rejected { reason, .. } => format!("rejected {reason:?}"),
            EventKind::Admitted { .. } => "admitted".to_owned(),
            _ => return,
        };
        list.lock().unwrap().push(text);
    }));
    let client = peer.client(&OutgoingLayer::new(registry, ten_per_second()));
    peer.will_answer(429, &[("retry-after", "soon"), ("ratelimit", r#""a";r=0;t=600"#)]);
    assert_eq!(send(&client).await.unwrap(), 429);
    assert_eq!(not_sent(send(&client).await), (60_000, true));
    let expected = [
        "admitted",
        "ignored peer retry-after",
        "closed peer 60s true",
        "not shared peer",
        "rejected Blocked",
    ];
    assert_eq!(*events.lock().unwrap(), expected);
}

#[test]
fn an_answer_closes_the_key_without_a_runtime() {
    let (peer, [registry]) = (Peer::new(), processes());
    let client = peer.client(&OutgoingLayer::new(registry, ten_per_second()));
    peer.will_answer(429, &[("retry-after", "9")]);
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = || std::pin::pin!(client.clone().oneshot(get("http://a"))).poll(&mut context);
    assert!(matches!(poll(), Poll::Ready(Ok(response)) if response.status() == 429));
    assert!(matches!(poll(), Poll::Ready(Err(OutgoingError::Limited(_)))));
}

#[test]
fn a_policy_with_a_lease_is_refused() {
    let [registry] = processes();
    let plain = || Policy::gcra("peer", Quota::per_second(10).burst(10));
    let refused = |policy| OutgoingLayer::try_new(Arc::clone(&registry), policy).unwrap_err();
    assert!(matches!(refused(plain().lease(5))[..], [LayerError::LeasedOverrides { .. }]));
    let kept = OutgoingLayer::new(Arc::clone(&registry), plain());
    let other = Policy::gcra("peer", Quota::per_second(11).burst(11));
    assert!(matches!(refused(other.clone())[..], [LayerError::Conflict(_)]));
    // All that is wrong, and nothing that is right without the lease.
    let both = refused(other.lease(5));
    assert!(matches!(both[..], [LayerError::LeasedOverrides { .. }, LayerError::Conflict(_)]), "{both}");
    assert!(matches!(refused(plain().lease(5))[..], [LayerError::LeasedOverrides { .. }]));
    drop(kept);
}

#[cfg(feature = "tonic")]
#[tokio::test(start_paused = true)]
async fn a_grpc_client_gets_resource_exhausted() {
    let (peer, [registry]) = (Peer::new(), processes());
    let client = peer.client(&OutgoingLayer::new(registry, ten_per_second()));
    peer.will_answer(200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "1500")]);
    assert_eq!(send(&client).await.unwrap(), 200);
    let error = send(&client).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1_500)));
    let status = tonic::Status::from_error(Box::new(error));
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let message =
        "the request was not sent: the server wants no requests now (policy peer): retry after 1.5s";
    assert_eq!(status.message(), message);
}
