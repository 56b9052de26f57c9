//! Events: each is emitted once for its cause, and none contains an identity.

pub(crate) mod corrections;
mod settlements;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request};
use portcullis_core::{Decision, FailureMode, Policy, Quota, Secret};
use portcullis_tower::{
    AsyncKeyExtractor, Bearer, ClientIp, Event, EventKind, Global, Header, Identity, KeyError, KeyExtractor,
    KeyWriter, Limit, Lookup, Observer, OnMissing, PolicyExt as _, RateLimitLayer, Registry,
};

use crate::log::log;
use crate::probe::{Probe, probed, request, send};
use crate::support::{Mode, TestStore, registry_of};
use tower::Layer as _;

/// Values in requests that must not be in any event.
const IDENTITIES: [&str; 3] = ["ada-s3cret", "192.0.2.77", "acme-tenant"];

/// Records a short form of each event.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Observer for Recorder {
    fn on_event(&self, event: &Event<'_>) {
        let printed = format!("{event:?} {}", event.policies);
        for identity in IDENTITIES {
            assert!(!printed.contains(identity), "{printed}");
        }
        assert!(event.policies.names().count() > 0);
        self.0.lock().unwrap().push(short(event.kind));
    }
}

impl Recorder {
    /// The events since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn short(kind: EventKind<'_>) -> String {
    match kind {
        EventKind::Admitted { decisions } => format!("admitted{}", figures(decisions)),
        EventKind::Rejected { reason, decisions } => format!("rejected {reason:?}{}", figures(decisions)),
        EventKind::Exempt { policy } => format!("exempt {policy}"),
        EventKind::Preflight { is_counted } => format!("preflight {is_counted}"),
        EventKind::IdentityMissing { policy, on_missing } => format!("missing {policy} {on_missing:?}"),
        EventKind::IdentityMalformed { policy, error } => format!("malformed {policy}: {error}"),
        EventKind::Misconfigured { .. } => "misconfigured".to_owned(),
        EventKind::LookupFailed { policy, error } => format!("look-up failed {policy}: {error}"),
        EventKind::ShadowWouldReject { decision } => format!("shadow rejects {}", decision.policy()),
        EventKind::ShadowUnidentified { policy, .. } => format!("shadow unidentified {policy}"),
        EventKind::StoreFailed { error, is_new } => format!("store failed {:?} {is_new}", error.kind()),
        EventKind::OpenForExpired { policy } => format!("open for expired {policy}"),
        EventKind::StoreRecovered => "store recovered".to_owned(),
        EventKind::StoreOverloaded { .. } => "store overloaded".to_owned(),
        EventKind::TooManyWaiting => "too many waiting".to_owned(),
        EventKind::NotReady => "not ready".to_owned(),
        EventKind::ChargedMore { decisions, units } => format!("charged {units}{}", figures(decisions)),
        EventKind::ChargeDenied { decisions, units } => format!("denied {units}{}", figures(decisions)),
        EventKind::Refunded { decision, units } => {
            format!("refunded {units} {}:{}", decision.policy(), decision.remaining())
        }
        EventKind::RefundDropped => "refund dropped".to_owned(),
        EventKind::DebtExceeded { policy, uncharged } => format!("uncharged {uncharged} {policy}"),
        EventKind::SettlementLost { policy, reserved, used, cause } => {
            format!("lost {reserved} to {used} {policy}: {cause:?}")
        }
        EventKind::ChargedTwice { policy } => format!("charged twice {policy}"),
        _ => unreachable!("{kind:?}"),
    }
}

/// Per policy what remains, with `!` for a denial and `?` where nothing is counted.
fn figures(decisions: &[Decision]) -> String {
    let figure = |decision: &Decision| {
        let denied = if decision.is_allowed() { "" } else { "!" };
        let degraded = if decision.is_degraded() { "?" } else { "" };
        format!(" {}:{}{denied}{degraded}", decision.policy(), decision.remaining())
    };
    decisions.iter().map(figure).collect()
}

struct Observed {
    store: Arc<TestStore>,
    registry: Arc<Registry>,
    events: Recorder,
}

impl Observed {
    fn new(mode: Mode) -> Self {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(Arc::clone(&store));
        let events = Recorder::default();
        registry.observe(Arc::new(events.clone()));
        Self { store, registry, events }
    }

    fn layer(&self, policy: Policy, key: impl KeyExtractor) -> RateLimitLayer {
        self.layer_of(policy.by(key))
    }

    fn layer_of(&self, limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), limit).with_charge()
    }

    fn looks_up(&self, policy: Policy) -> RateLimitLayer {
        self.layer_of(policy.by_async(tenants()))
    }

    async fn emits(&self, cases: Vec<Case<'_>>, mode: Mode) {
        for (case, layer, requests) in cases {
            for (number, (request, expected)) in requests.into_iter().enumerate() {
                assert_eq!(self.after(&layer, request).await, expected, "{case}, {number}, {mode:?}");
            }
        }
    }

    async fn after(&self, layer: &RateLimitLayer, request: Request<String>) -> Vec<String> {
        let (service, _) = probed(layer);
        send(&service, request).await;
        self.events.take()
    }
}

fn policy(name: &'static str, burst: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_day(burst))
}

fn open(name: &'static str) -> Policy {
    policy(name, 9).on_store_failure(FailureMode::Open)
}

fn exempts() -> impl KeyExtractor {
    |_: &Parts, _: &mut KeyWriter<'_>| Ok(Identity::Exempt)
}

fn tenants() -> impl AsyncKeyExtractor {
    |parts: &Parts| {
        let key = parts.headers.get("x-api-key").map(|key| key.to_str().unwrap().to_owned());
        async move {
            tokio::task::yield_now().await;
            match key.as_deref() {
                Some("known") => Ok(Lookup::found("tenant", "acme-tenant")),
                Some("revoked") => Err(KeyError::client("the key is revoked")),
                Some("down") => Err(KeyError::server("the directory is down")),
                Some("slow") => std::future::pending().await,
                _ => Ok(Lookup::missing()),
            }
        }
    }
}

fn preflight() -> Request<String> {
    let headers = [("origin", "https://a.example"), ("access-control-request-method", "GET")];
    let mut preflight = request(&headers);
    *preflight.method_mut() = Method::OPTIONS;
    preflight
}

type Case<'a> = (&'a str, RateLimitLayer, Vec<(Request<String>, &'a [&'a str])>);

#[tokio::test]
async fn each_request_emits_one_event_per_cause() {
    for mode in [Mode::Ready, Mode::Later] {
        let observed = Observed::new(mode);
        let plain = || request(&[("x-user", "ada-s3cret")]);
        let bearer = |token: &str| request(&[("authorization", token)]);
        let cases: Vec<Case<'_>> = vec![
            (
                "several policies",
                observed.layer(policy("a", 1), Header::named("x-user")).and(policy("b", 9)),
                vec![(plain(), &["admitted a:0 b:8"]), (plain(), &["rejected Limited a:0! b:8"])],
            ),
            (
                "a cost that never fits",
                observed.layer_of(policy("c", 1).by(Global).cost(2)),
                vec![(plain(), &["rejected NeverFits c:1!"])],
            ),
            (
                "an exempt request",
                observed.layer(policy("d", 1), exempts()).and(policy("e", 9).by(Global)),
                vec![(plain(), &["exempt d", "admitted e:8"])],
            ),
            (
                "an exempt request that no policy counts",
                observed.layer(policy("f", 1), exempts()),
                vec![(plain(), &["exempt f", "admitted"])],
            ),
            (
                "a missing identity",
                observed.layer(policy("g", 9), Bearer),
                vec![
                    (plain(), &["missing g Reject", "rejected Unauthenticated"]),
                    (
                        bearer("Bearer ada-s3cret ada-s3cret"),
                        &["missing g Reject", "rejected Unauthenticated"],
                    ),
                    (bearer("Bearer ada-s3cret"), &["admitted g:8"]),
                ],
            ),
            (
                "a missing identity with a shared budget",
                observed.layer_of(policy("h", 9).by(Header::named("x-absent")).on_missing(OnMissing::Shared)),
                vec![(plain(), &["missing h Shared", "admitted h:8"])],
            ),
            (
                "a server that does not know the address",
                observed.layer(policy("i", 9), ClientIp::peer()),
                vec![(plain(), &["misconfigured", "rejected Misconfigured"])],
            ),
            (
                "shadow policies",
                observed
                    .layer(policy("j", 9), Global)
                    .and(Limit::new(policy("k", 1)).shadow())
                    .and(policy("l", 1).by(Bearer).shadow()),
                vec![
                    (plain(), &["missing l Reject", "shadow unidentified l", "admitted j:8"]),
                    (bearer("Bearer ada-s3cret"), &["shadow rejects k", "admitted j:7"]),
                ],
            ),
            (
                "preflights",
                observed.layer(policy("m", 1), Global),
                vec![
                    (preflight(), &["preflight true", "admitted m:0"]),
                    (preflight(), &["preflight true", "rejected Limited m:0!"]),
                ],
            ),
            (
                "a preflight that is not counted",
                observed.layer(policy("n", 1), Bearer),
                vec![(preflight(), &["preflight false", "admitted"])],
            ),
        ];
        observed.emits(cases, mode).await;
    }
}

#[tokio::test]
async fn look_ups_and_their_refunds_emit_events() {
    for mode in [Mode::Ready, Mode::Later] {
        let observed = Observed::new(mode);
        let key = |key: &str| request(&[("x-api-key", key)]);
        let cases: Vec<Case<'_>> = vec![(
            "look-ups",
            observed.layer(policy("o", 9), Global).and(policy("p", 1).by_async(tenants())),
            vec![
                (key("known"), &["admitted o:8 p:0"]),
                (key("known"), &["rejected Limited p:0!", "refunded 1 o:8"]),
                (
                    key("revoked"),
                    &["malformed p: the key is revoked", "rejected BadIdentity", "refunded 1 o:8"],
                ),
                (
                    key("down"),
                    &["look-up failed p: the directory is down", "rejected LookupFailed", "refunded 1 o:8"],
                ),
                (request(&[]), &["missing p Reject", "rejected BadIdentity", "refunded 1 o:8"]),
            ],
        )];
        observed.emits(cases, mode).await;
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_recovery_of_the_store_emit_events() {
    for [down, overloaded] in [[Mode::Down, Mode::Overloaded], [Mode::DownLater, Mode::OvertakenLater]] {
        let observed = Observed::new(down);
        let open = observed.layer(open("open"), Global);
        let closed = observed.layer(policy("closed", 9).on_store_failure(FailureMode::Closed), Global);
        let shadow =
            observed.layer(self::open("other"), Global).and(Limit::new(policy("shadow", 9)).shadow());
        let passes = "admitted open:9?";
        for (layer, mode, expected) in [
            (&open, down, &["store failed Unavailable true", passes][..]),
            (&open, down, &["store failed Unavailable false", passes]),
            // Each layer has its own view of an outage.
            (&closed, down, &["store failed Unavailable true", "rejected StoreFailed"]),
            (&closed, overloaded, &["store overloaded", "rejected Overloaded"]),
            (&open, Mode::Ready, &["store recovered", "admitted open:8"]),
            (&open, Mode::Ready, &["admitted open:7"]),
            (&closed, Mode::Ready, &["store recovered", "admitted closed:8"]),
            (
                &shadow,
                down,
                &["store failed Unavailable true", "store failed Unavailable false", "admitted other:9?"],
            ),
        ] {
            observed.store.set(mode);
            send(&layer.layer(Probe::default()), request(&[])).await;
            assert_eq!(observed.events.take(), expected, "{mode:?}");
            tokio::time::advance(Duration::from_secs(2)).await;
        }
    }
}

#[tokio::test]
async fn an_expired_failure_mode_emits_one_event() {
    use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
    use portcullis_core::{Key, Receipt, Settlement, StoreError, StoreErrorKind};

    /// Has failed for an hour.
    struct Failing;

    impl Store for Failing {
        fn check(&self, _: Checks) -> StoreFuture<Outcome> {
            let error =
                StoreError::new(StoreErrorKind::Unavailable, "down").with_outage(Duration::from_hours(1));
            StoreFuture::ready(Err(error))
        }

        fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
            unimplemented!("nothing is charged")
        }

        fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
            unimplemented!("nothing is charged")
        }

        fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
            unimplemented!("nothing is charged")
        }
    }

    let registry = Arc::new(Registry::new(Arc::new(Failing), Secret::published()));
    let events = Recorder::default();
    registry.observe(Arc::new(events.clone()));
    let minute = policy("minute", 9).on_store_failure(FailureMode::OpenFor(Duration::from_mins(1)));
    let (service, _) = probed(&RateLimitLayer::new(registry, minute.by(Global)));
    send(&service, request(&[])).await;
    let first = ["store failed Unavailable true", "open for expired minute", "rejected StoreFailed"];
    assert_eq!(events.take(), first);
    send(&service, request(&[])).await;
    assert_eq!(events.take(), ["store failed Unavailable false", "rejected StoreFailed"]);
}

#[tokio::test]
async fn every_observer_is_called_besides_the_log() {
    let observed = Observed::new(Mode::Ready);
    let second = Recorder::default();
    let layer = observed.layer(policy("a", 9), Bearer);
    // Layers that exist already have it too.
    observed.registry.observe(Arc::new(second.clone()));
    let (log, _guard) = log();
    let events = observed.after(&layer, request(&[])).await;
    assert_eq!(events, ["missing a Reject", "rejected Unauthenticated"]);
    assert_eq!(second.take(), events);
    assert!(log.lines()[0].starts_with("WARN requests have no identity"), "{:?}", log.lines());
}
