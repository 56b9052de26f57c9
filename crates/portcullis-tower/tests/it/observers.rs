//! Observers: the fingerprints that events show, and panics that change nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use portcullis_core::overrides::LockOut;
use portcullis_core::{Key, ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    AsyncKeyExtractor, Bearer, Charge, CheckBuilder, Event, EventKind, Fingerprint, Global, Header, KeyError,
    Limit, Lookup, Observer, PolicyExt as _, RateLimitLayer, Registry,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::log::log;
use crate::probe::{probed, request, send};
use crate::support::{Mode, TestStore, registry_of};

/// The kind of an event, with its fingerprints.
type Seen = (String, BTreeMap<String, Fingerprint>);

/// Keeps the kind of each event, with its fingerprints by the names of policies.
#[derive(Clone, Default)]
struct Fingerprints {
    seen: Arc<Mutex<Vec<Seen>>>,
    asks: bool,
}

impl Observer for Fingerprints {
    fn on_event(&self, event: &Event<'_>) {
        let kind = format!("{:?}", event.kind);
        let kind = kind.split([' ', '{']).next().unwrap_or_default().to_owned();
        let found = event.fingerprints().map(|(policy, key)| (policy.to_string(), key)).collect();
        self.seen.lock().unwrap().push((kind, found));
    }

    fn wants_fingerprints(&self) -> bool {
        self.asks
    }
}

impl Fingerprints {
    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

struct Setup {
    registry: Arc<Registry>,
    store: Arc<TestStore>,
    seen: Fingerprints,
}

impl Setup {
    fn new(mode: Mode, asks: bool) -> Self {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(Arc::clone(&store));
        let seen = Fingerprints { asks, ..Fingerprints::default() };
        registry.observe(Arc::new(seen.clone()));
        Self { registry, store, seen }
    }

    fn layer(&self, limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), limit).with_charge()
    }

    /// The events of a request, each with the names of the policies whose keys are the given ones.
    async fn events(
        &self,
        layer: &RateLimitLayer,
        request: Request<String>,
        keys: &[(&str, Key)],
    ) -> Vec<String> {
        let (service, _) = probed(layer);
        send(&service, request).await;
        let shown = |(kind, found): Seen| {
            let mut names = Vec::new();
            for (policy, fingerprint) in found {
                let expected = keys.iter().find(|(name, _)| *name == policy).unwrap().1;
                assert_eq!(fingerprint.key(), expected, "{kind} {policy}");
                names.push(policy);
            }
            format!("{kind} {}", names.join("+"))
        };
        self.seen.take().into_iter().map(shown).collect()
    }
}

fn daily(name: &'static str, limit: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_day(limit))
}

fn key(parts: &[(&'static str, &str)]) -> Key {
    let mut hasher = Secret::published().hasher();
    for (tag, value) in parts {
        hasher.writer().part(tag, value.as_bytes());
    }
    hasher.finish().unwrap()
}

fn ada() -> Key {
    key(&[("header", "ada"), ("header name", "x-user")])
}

fn everyone() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().shared_part("global", b"");
    hasher.finish().unwrap()
}

fn tenants() -> impl AsyncKeyExtractor {
    |parts: &http::request::Parts| {
        let is_known = parts.headers.contains_key("x-tenant");
        async move {
            tokio::task::yield_now().await;
            if is_known { Ok(Lookup::found("tenant", "acme")) } else { Err(KeyError::server("no directory")) }
        }
    }
}

#[tokio::test]
async fn events_of_a_request_show_the_keys_of_all_policies() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode, true);
        let keys = [
            ("user", ada()),
            ("all", everyone()),
            ("trial", everyone()),
            ("tenant", key(&[("tenant", "acme")])),
        ];
        let by_ada = || request(&[("x-user", "ada"), ("x-tenant", "a")]);
        let two = setup.layer(daily("user", 2).by(Header::named("x-user")).warn_at(0.5));
        let two = two.and(daily("all", 9).by(Global));
        for expected in [
            &["SoftLimitReached all+user", "Admitted all+user"][..],
            &["SoftLimitReached all+user", "Admitted all+user"],
            &["Rejected all+user"],
        ] {
            assert_eq!(setup.events(&two, by_ada(), &keys).await, expected, "{mode:?}");
        }
        // A shadow policy has a key as well.
        let trial = setup.layer(daily("trial", 1).by(Global).shadow()).and(daily("all", 9));
        assert_eq!(setup.events(&trial, by_ada(), &keys).await, ["Admitted all+trial"]);
        assert_eq!(
            setup.events(&trial, by_ada(), &keys).await,
            ["ShadowWouldReject all+trial", "Admitted all+trial"]
        );
        // What is known when an identity is missing.
        let bearer = setup.layer(daily("all", 9).by(Global)).and(daily("bearer", 9).by(Bearer));
        assert_eq!(
            setup.events(&bearer, by_ada(), &keys).await,
            ["IdentityMissing all", "Rejected all"],
            "{mode:?}"
        );
        // A look-up is known once it is done.
        let user = daily("user", 2).by(Header::named("x-user"));
        let user = user.on_missing(portcullis_tower::OnMissing::Exempt);
        let tenant = setup.layer(user).and(daily("tenant", 9).by_async(tenants()));
        assert_eq!(
            setup.events(&tenant, request(&[("x-tenant", "a")]), &keys).await,
            ["IdentityMissing ", "Admitted tenant"]
        );
    }
}

#[tokio::test]
async fn requests_without_a_store_show_their_keys() {
    let setup = Setup::new(Mode::Down, true);
    let open = daily("user", 1).on_store_failure(portcullis_core::FailureMode::Open);
    let layer = setup.layer(open.by(Header::named("x-user")));
    let by_ada = || request(&[("x-user", "ada")]);
    let keys = [("user", ada()), ("closed", ada())];
    assert_eq!(setup.events(&layer, by_ada(), &keys).await, ["StoreFailed ", "Admitted user"]);
    let closed = daily("closed", 1).on_store_failure(portcullis_core::FailureMode::Closed);
    let closed = setup.layer(closed.by(Header::named("x-user")));
    assert_eq!(setup.events(&closed, by_ada(), &keys).await, ["StoreFailed ", "Rejected closed"]);
    setup.store.set(Mode::Ready);
}

#[tokio::test]
async fn without_an_observer_that_asks_there_are_none() {
    let setup = Setup::new(Mode::Ready, false);
    let layer = setup.layer(daily("user", 1).by(Header::named("x-user")));
    let by_ada = || request(&[("x-user", "ada")]);
    assert_eq!(setup.events(&layer, by_ada(), &[]).await, ["Admitted "]);
    // One that asks later is enough, for all of them.
    let asking = Fingerprints { asks: true, ..Fingerprints::default() };
    setup.registry.observe(Arc::new(asking));
    assert_eq!(setup.events(&layer, by_ada(), &[("user", ada())]).await, ["Rejected user"]);
}

#[tokio::test]
async fn a_nested_layer_does_not_show_the_keys_of_the_outer_one() {
    let setup = Setup::new(Mode::Ready, true);
    let inner = setup.layer(daily("inner", 9).by(Bearer).on_missing(portcullis_tower::OnMissing::Exempt));
    let outer = setup.layer(daily("user", 9).by(Header::named("x-user")));
    let service = outer.layer(inner.layer(crate::probe::Probe::default()));
    assert!(service.oneshot(request(&[("x-user", "ada")])).await.is_ok());
    let seen: Vec<_> = setup.seen.take().into_iter().map(|(kind, found)| (kind, found.len())).collect();
    let expected = [("Admitted", 1), ("IdentityMissing", 0), ("Admitted", 0)];
    assert_eq!(seen, expected.map(|(kind, keys)| (kind.to_owned(), keys)));
}

#[tokio::test]
async fn charges_of_handlers_show_the_keys_that_they_change() {
    let setup = Setup::new(Mode::Ready, true);
    let layer = setup.layer(daily("user", 5).by(Header::named("x-user")));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap().clone();
        let _ = charge.charge_more(1).await.unwrap();
        let _ = charge.charge_more(9).await.unwrap();
        charge.settle(0).await.unwrap();
        Ok::<_, std::convert::Infallible>(http::Response::new(()))
    }));
    service.oneshot(request(&[("x-user", "ada")])).await.unwrap();
    let ada = BTreeMap::from([("user".to_owned(), Fingerprint::from(ada()))]);
    let seen = setup.seen.take();
    let kinds: Vec<_> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["Admitted", "ChargedMore", "ChargeDenied", "Refunded"]);
    assert!(seen.iter().all(|(_, found)| *found == ada), "{seen:?}");
}

#[tokio::test]
async fn a_check_of_a_handler_shows_its_keys() {
    let setup = Setup::new(Mode::Ready, true);
    let (user, mails) = (daily("user", 5), daily("mails", 1));
    let check = || CheckBuilder::new(&setup.registry, &user).by_key(ada()).and(&mails).by_key(everyone());
    assert!(check().await.is_ok() && check().await.is_err());
    let both = BTreeMap::from([
        ("mails".to_owned(), Fingerprint::from(everyone())),
        ("user".to_owned(), Fingerprint::from(ada())),
    ]);
    assert_eq!(setup.seen.take(), [("Admitted".to_owned(), both.clone()), ("Rejected".to_owned(), both)]);
}

#[tokio::test]
async fn a_lock_out_shows_the_key_that_is_locked_out() {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let seen = Fingerprints { asks: true, ..Fingerprints::default() };
    registry.observe(Arc::new(seen.clone()));
    let rule = LockOut::after(1).within(Duration::from_secs(60)).block_for(Duration::from_secs(60));
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        daily("user", 1).by(Header::named("x-user")).lock_out(rule),
    )
    .with_charge();
    let (service, _) = probed(&layer);
    for _ in 0..2 {
        send(&service, request(&[("x-user", "ada")])).await;
    }
    let seen = seen.take();
    let locked_out = seen.iter().find(|(kind, _)| kind == "LockedOut").unwrap();
    assert_eq!(locked_out.1, BTreeMap::from([("user".to_owned(), Fingerprint::from(ada()))]));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_has_waited_is_an_event() {
    let waited = Arc::new(Mutex::new(Vec::new()));
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let sink = Arc::clone(&waited);
    registry.observe(Arc::new(move |event: &Event<'_>| match event.kind {
        EventKind::Waited { policy, waited } => sink.lock().unwrap().push(format!("{policy} {waited:?}")),
        EventKind::Admitted { .. } => sink.lock().unwrap().push("admitted".to_owned()),
        _ => {}
    }));
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
    let (service, _) = probed(&RateLimitLayer::new(registry, queue.by(Global)).with_charge());
    for _ in 0..2 {
        send(&service, request(&[])).await;
    }
    assert_eq!(*waited.lock().unwrap(), ["admitted", "queue 1s", "admitted"]);
}

#[tokio::test]
async fn panics_of_an_observer_change_nothing_and_are_logged_once() {
    let (log, _guard) = log();
    let setup = Setup::new(Mode::Ready, false);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    setup.registry.observe(Arc::new(move |_: &Event<'_>| {
        counter.fetch_add(1, Ordering::Relaxed);
        panic!("a bug in an observer");
    }));
    let last = Fingerprints::default();
    setup.registry.observe(Arc::new(last.clone()));
    let layer = setup.layer(daily("user", 2).by(Header::named("x-user")));
    let (service, probe) = probed(&layer);
    for status in [200, 200, 429] {
        assert_eq!(send(&service, request(&[("x-user", "ada")])).await.status, status);
    }
    let _ = probe;
    assert_eq!((calls.load(Ordering::Relaxed), last.take().len()), (3, 3));
    let lines: Vec<_> = log.lines().into_iter().filter(|line| line.contains("observer")).collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("ERROR an observer of the rate limiter has panicked"),
        "{lines:?}"
    );
}
