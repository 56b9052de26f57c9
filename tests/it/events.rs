//! Everything that happens to requests reaches an observer: from a real server, in memory and on a real Redis that fails and comes back.
//! Keys have fingerprints only if the observer asks for them, and no event has an identity.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{Request, request::Parts};
use axum::routing::get;
use portcullis::charge::Usage;
use portcullis::event::{Event, Fingerprint, Observer};
use portcullis::key::{Bearer, Header, Identity, Key, KeyWriter};
use portcullis::layer::LockOut;
use portcullis::store::{Checks, MemoryStore, Outcome, Store, StoreErrorKind, StoreFuture};
use portcullis::{
    Decision, FailureMode, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer, Receipt, Secret,
    Settlement, StoreError,
};
use portcullis_core::overrides::Block;
use portcullis_servers::{Fault, FaultProxy, RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::sync::Notify;

const DAY: Duration = Duration::from_secs(86_400);
const USER: &str = "usr-5ecret-Zq5";
const TOKEN: &str = "tok-5ecret-Zq2";

const SEARCH: Policy = Policy::fixed_window("search", Quota::per_week(2));
const TRIAL: Policy = Policy::fixed_window("trial", Quota::per_week(1));
const INTERNAL: Policy = Policy::fixed_window("internal", Quota::per_week(1));
const ACCOUNT: Policy = Policy::fixed_window("account", Quota::per_week(9));
const QUEUE: Policy = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
const TOKENS: Policy = Policy::fixed_window("tokens", Quota::per_week(100));
const PAGES: Policy =
    Policy::fixed_window("pages", Quota::per_week(100_000)).on_store_failure(FailureMode::Closed);

/// What an observer has seen: the kind of each event, and the policies with the fingerprint of the user.
#[derive(Clone, Default)]
struct Seen {
    events: Arc<Mutex<BTreeSet<String>>>,
    asks: bool,
    of_user: Option<Fingerprint>,
}

impl Observer for Seen {
    fn on_event(&self, event: &Event<'_>) {
        let text = format!("{event:?}");
        assert!(!text.contains("5ecret"), "{text}");
        let kind = format!("{:?}", event.kind);
        let mut seen = kind.split([' ', '{']).next().unwrap_or_default().to_owned();
        for (policy, fingerprint) in event.fingerprints() {
            let whose = if Some(fingerprint) == self.of_user { "the user" } else { "another" };
            seen.extend([" ", policy.as_str(), " of ", whose]);
        }
        self.events.lock().unwrap().insert(seen);
    }

    fn wants_fingerprints(&self) -> bool {
        self.asks
    }
}

/// Makes the store fail.
enum Faults {
    Memory(Arc<AtomicBool>),
    Redis(FaultProxy),
}

impl Faults {
    /// Nothing is decided any more.
    fn begin(&self) {
        match self {
            Self::Memory(fails) => fails.store(true, Ordering::Relaxed),
            Self::Redis(proxy) => {
                proxy.set_fault(Fault::Refuse);
                proxy.close_connections();
            }
        }
    }

    /// Nothing tells whether a settlement was made.
    fn begin_without_replies(&self) {
        match self {
            Self::Memory(_) => self.begin(),
            Self::Redis(proxy) => proxy.set_fault(Fault::CutReply),
        }
    }

    fn end(&self) {
        match self {
            Self::Memory(fails) => fails.store(false, Ordering::Relaxed),
            Self::Redis(proxy) => proxy.set_fault(Fault::None),
        }
    }
}

/// A store in memory that fails on request.
struct Failing {
    inner: MemoryStore,
    fails: Arc<AtomicBool>,
}

impl Failing {
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::new(StoreErrorKind::TimedOut, "no answer came in time"));
        }
        Ok(&self.inner)
    }
}

fn failed<T>(error: StoreError) -> StoreFuture<T> {
    StoreFuture::ready(Err(error))
}

impl Store for Failing {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.store().map_or_else(failed, |store| store.check(checks))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.store().map_or_else(failed, |store| store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.store().map_or_else(failed, |store| store.settle(receipt, cost))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store().map_or_else(failed, |store| store.reset(policy, key))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.inner.register(policy)
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.store().map_or_else(failed, |store| store.record_denials(policy, key, denials, lock_out))
    }
}

/// A server with limits, and what its observer sees.
struct Server {
    url: String,
    client: HttpClient,
    faults: Faults,
    seen: Seen,
    /// A request has reached the handler of `/tokens`, and the handler may answer.
    gates: Arc<[Notify; 2]>,
}

fn user() -> Header {
    Header::named("x-user")
}

fn layers(limiter: &Limiter) -> [(&'static str, RateLimitLayer); 6] {
    let exempt = |_: &Parts, _: &mut KeyWriter<'_>| Ok(Identity::Exempt);
    let rule = LockOut::after(1).within(DAY).block_for(DAY);
    [
        ("/search", limiter.layer(SEARCH.by(user()).warn_at(0.5).lock_out(rule))),
        ("/trial", limiter.layer(TRIAL.by(user()).shadow())),
        ("/internal", limiter.layer(INTERNAL.by(exempt))),
        ("/account", limiter.layer(ACCOUNT.by(Bearer))),
        ("/queue", limiter.layer(QUEUE.by(user()))),
        ("/pages", limiter.layer(PAGES.by(user()))),
    ]
}

impl Server {
    async fn start(limiter: Limiter, faults: Faults, asks: bool) -> Self {
        let request = Request::builder().header("x-user", USER).body(()).unwrap();
        let of_user = Some(limiter.key_of(&user(), request).unwrap().into());
        let seen = Seen { asks, of_user, ..Seen::default() };
        let limiter = limiter.observe(seen.clone());
        let gates = Arc::new([const { Notify::const_new() }; 2]);
        let handler_gates = Arc::clone(&gates);
        let tokens = get(async move |usage: Usage| {
            usage.add(4);
            handler_gates[0].notify_one();
            handler_gates[1].notified().await;
            "four tokens"
        });
        let mut app =
            Router::new().route("/tokens", tokens.layer(limiter.layer(TOKENS.by(user()).reserve(10))));
        for (path, layer) in layers(&limiter) {
            app = app.route(path, get(async || "here").layer(layer));
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, client: HttpClient::http_1(), faults, seen, gates }
    }

    async fn send(&self, path: &str) -> u16 {
        self.send_as(path, &format!("Bearer {TOKEN}")).await
    }

    async fn send_as(&self, path: &str, authorization: &str) -> u16 {
        let request = Request::get(format!("{}{path}", self.url)).header("x-user", USER);
        let request = request.header("authorization", authorization);
        self.client.send(request, ()).await.status().as_u16()
    }

    /// Waits until an event was seen, during which `again` is done.
    async fn until(&self, event: &str, mut again: impl AsyncFnMut()) {
        let is_seen = || self.seen.events.lock().unwrap().iter().any(|seen| seen.starts_with(event));
        within_a_minute(event, async {
            while !is_seen() {
                again().await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    /// Asserts what was seen since the last time. A policy stands for the fingerprint of the user under it.
    fn assert_seen(&self, events: &[(&str, &str)]) {
        let text = |(kind, policy): &(&str, &str)| match *policy {
            "" => (*kind).to_owned(),
            _ if !self.seen.asks => (*kind).to_owned(),
            policy => format!("{kind} {policy} of the user"),
        };
        let seen = std::mem::take(&mut *self.seen.events.lock().unwrap());
        assert_eq!(seen, events.iter().map(text).collect());
    }
}

async fn an_observer_sees_everything(server: Server) {
    // A client comes near its limit, exceeds it, and is locked out.
    assert_eq!(server.send("/search").await, 200);
    server.assert_seen(&[("SoftLimitReached", "search"), ("Admitted", "search")]);
    assert_eq!([server.send("/search").await, server.send("/search").await], [200, 429]);
    server.until("LockedOut", async || ()).await;
    server.assert_seen(&[
        ("SoftLimitReached", "search"),
        ("Admitted", "search"),
        ("Rejected", "search"),
        ("LockedOut", "search"),
    ]);

    // A policy in shadow, and one that a request is exempt from.
    assert_eq!([server.send("/trial").await, server.send("/trial").await], [200, 200]);
    server.assert_seen(&[("ShadowWouldReject", "trial"), ("Admitted", "trial")]);
    assert_eq!(server.send("/internal").await, 200);
    server.assert_seen(&[("Exempt", ""), ("Admitted", "")]);

    // Without an identity, and with a broken one.
    assert_eq!(server.send_as("/account", "Basic YTpi").await, 401);
    server.assert_seen(&[("IdentityMissing", ""), ("Rejected", "")]);
    let twice = Request::get(format!("{}/pages", server.url)).header("x-user", USER).header("x-user", USER);
    assert_eq!(server.client.send(twice, ()).await.status(), 400);
    server.assert_seen(&[("IdentityMalformed", ""), ("Rejected", "")]);

    // A request waits for its slot.
    server
        .until("Waited", async || {
            let statuses = tokio::join!(server.send("/queue"), server.send("/queue"));
            assert_eq!(statuses, (200, 200));
        })
        .await;
    server.assert_seen(&[("Waited", "queue"), ("Admitted", "queue")]);

    // The store does not tell whether it has settled what a request has used.
    let settled = async {
        server.gates[0].notified().await;
        server.assert_seen(&[("Admitted", "tokens")]);
        server.faults.begin_without_replies();
        server.gates[1].notify_one();
    };
    let (status, ()) = tokio::join!(server.send("/tokens"), settled);
    assert_eq!(status, 200);
    server.until("SettlementLost", async || ()).await;
    server.assert_seen(&[("StoreFailed", ""), ("SettlementLost", "tokens")]);

    // The store fails and comes back.
    server.faults.begin();
    server.until("StoreFailed", async || assert_eq!(server.send("/pages").await, 503)).await;
    server.faults.end();
    server.until("StoreRecovered", async || assert_ne!(server.send("/pages").await, 429)).await;
    server.assert_seen(&[
        ("StoreFailed", ""),
        ("Rejected", "pages"),
        ("StoreRecovered", ""),
        ("Admitted", "pages"),
    ]);
}

#[tokio::test]
async fn an_observer_sees_everything_in_memory() {
    for asks in [false, true] {
        let fails = Arc::<AtomicBool>::default();
        let store = Failing { inner: MemoryStore::new(), fails: Arc::clone(&fails) };
        let limiter = Limiter::new(store, Secret::published());
        an_observer_sees_everything(Server::start(limiter, Faults::Memory(fails), asks).await).await;
    }
}

#[tokio::test]
async fn an_observer_sees_everything_on_redis() {
    for asks in [false, true] {
        let redis = RedisServer::start().unwrap();
        let proxy = FaultProxy::start(redis.port()).unwrap();
        let url = redis.url().replace(&redis.port().to_string(), &proxy.port().to_string());
        let limiter = Limiter::redis(url).deadline(Duration::from_secs(5)).await.unwrap();
        an_observer_sees_everything(Server::start(limiter, Faults::Redis(proxy), asks).await).await;
    }
}
