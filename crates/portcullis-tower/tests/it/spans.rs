//! Decisions in the fields of a request's span.

use std::fmt;
use std::sync::{Arc, Mutex};

use http::Request;
use portcullis_core::{FailureMode, Policy, PolicyName, Quota};
use portcullis_tower::matching::RequestPath;
use portcullis_tower::{
    Bearer, Global, Header, OnMissing, PolicyExt as _, RateLimit, RateLimitLayer, Registry, SpanFields,
};
use tower::{Layer as _, ServiceExt as _};
use tracing::field::{Empty, Field, Visit};
use tracing::span::{Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument as _, Span, info_span};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::log::set_global_subscriber;
use crate::probe::{Probe, probed, request, send};
use crate::support::{Mode, TestStore, registry_of};

/// Keeps what is recorded in spans after they were made.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Recorded {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut Values(&mut self.0.lock().unwrap()));
    }
}

struct Values<'a>(&'a mut Vec<String>);

impl Visit for Values<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push(format!("{field}={value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push(format!("{field}={value}"));
    }

    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        panic!("{field} is neither a text nor a number");
    }
}

impl Recorded {
    fn start() -> (Self, DefaultGuard) {
        set_global_subscriber();
        let recorded = Self::default();
        let subscriber = tracing_subscriber::registry().with(recorded.clone());
        (recorded, tracing::subscriber::set_default(subscriber))
    }

    /// Sends a request in a span. Returns the status and what was recorded, without the prefix, in the order of the names.
    async fn send(&self, service: &RateLimit<Probe>, span: Span, request: Request<String>) -> (u16, String) {
        let answer = send(service, request).instrument(span).await;
        (answer.status, self.take())
    }

    fn take(&self) -> String {
        let mut recorded = std::mem::take(&mut *self.0.lock().unwrap());
        recorded.sort();
        recorded.join(" ").replace("rate_limit.", "")
    }
}

fn span() -> Span {
    info_span!(
        "request",
        rate_limit.outcome = Empty,
        rate_limit.policy = Empty,
        rate_limit.remaining = Empty,
        rate_limit.reason = Empty,
        rate_limit.would_reject = Empty,
    )
}

fn recording(store: &Arc<TestStore>) -> Arc<Registry> {
    let registry = registry_of(Arc::clone(store));
    registry.observe(Arc::new(SpanFields::new()));
    registry
}

fn policy(name: &'static str, units: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_week(units))
}

#[tokio::test]
async fn the_decisive_policy_is_recorded_in_the_span() {
    let (recorded, _guard) = Recorded::start();
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let layer = RateLimitLayer::new(recording(&store), policy("wide", 9).by(Global));
        let service = layer.and(policy("narrow", 2)).layer(Probe::default());
        for expected in [
            (200, "outcome=admitted policy=narrow remaining=1"),
            (200, "outcome=admitted policy=narrow remaining=0"),
            (429, "outcome=rejected policy=narrow reason=limited remaining=0"),
        ] {
            let (status, fields) = recorded.send(&service, span(), request(&[])).await;
            assert_eq!((status, fields.as_str()), expected, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn only_fields_that_the_span_has_are_recorded() {
    let (recorded, _guard) = Recorded::start();
    let store = Arc::<TestStore>::default();
    let (service, _) = probed(&RateLimitLayer::new(recording(&store), policy("all", 9).by(Global)));
    let outcome = info_span!("request", rate_limit.outcome = Empty, other = Empty);
    for (span, expected) in
        [(outcome, "outcome=admitted"), (info_span!("request", other = Empty), ""), (Span::none(), "")]
    {
        assert_eq!(recorded.send(&service, span, request(&[])).await, (200, expected.to_owned()));
    }
    // A limiter without the observer.
    let (silent, _) = probed(&RateLimitLayer::new(registry_of(store), policy("all", 9).by(Global)));
    assert_eq!(recorded.send(&silent, span(), request(&[])).await, (200, String::new()));
}

#[tokio::test]
async fn shadow_policies_are_named_beside_the_outcome() {
    let (recorded, _guard) = Recorded::start();
    let store = Arc::<TestStore>::default();
    let alone = RateLimitLayer::new(recording(&store), policy("tried", 1).by(Global).shadow());
    let service = alone.layer(Probe::default());
    for expected in [
        "outcome=admitted policy=tried remaining=0",
        "outcome=would_reject policy=tried remaining=0 would_reject=tried",
    ] {
        assert_eq!(recorded.send(&service, span(), request(&[])).await, (200, expected.to_owned()));
    }
    let both = RateLimitLayer::new(recording(&store), policy("tried", 1).by(Global).shadow());
    let service = both.and(policy("enforced", 9)).layer(Probe::default());
    let expected = "outcome=admitted policy=enforced remaining=8 would_reject=tried";
    assert_eq!(recorded.send(&service, span(), request(&[])).await, (200, expected.to_owned()));
}

#[tokio::test]
async fn shadow_policies_alone_decide_about_the_outcome() {
    let (recorded, _guard) = Recorded::start();
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let wide = RateLimitLayer::new(recording(&store), policy("wide", 9).by(Global).shadow());
        let both = wide.and(policy("narrow", 2).by(Global).shadow());
        let service = both.layer(Probe::default());
        for expected in [
            "outcome=admitted policy=narrow remaining=1",
            "outcome=admitted policy=narrow remaining=0",
            "outcome=would_reject policy=narrow remaining=0 would_reject=narrow",
        ] {
            let (status, fields) = recorded.send(&service, span(), request(&[])).await;
            assert_eq!((status, fields.as_str()), (200, expected), "{mode:?}");
        }
    }
}

#[tokio::test]
async fn shadow_policies_of_an_outer_layer_are_its_own() {
    let (recorded, _guard) = Recorded::start();
    let store = Arc::<TestStore>::default();
    let shadow =
        |name, units| RateLimitLayer::new(recording(&store), policy(name, units).by(Global).shadow());
    let service = shadow("outer", 1).layer(shadow("inner", 9).layer(Probe::default()));
    for expected in [
        "outcome=admitted outcome=admitted policy=inner policy=outer remaining=0 remaining=8",
        "outcome=admitted outcome=would_reject policy=inner policy=outer remaining=0 remaining=7 would_reject=outer",
    ] {
        let answer = service.clone().oneshot(request(&[])).instrument(span()).await.unwrap();
        assert_eq!((answer.status().as_u16(), recorded.take().as_str()), (200, expected));
    }
}

#[tokio::test]
async fn shadow_policies_leave_other_outcomes() {
    let (recorded, _guard) = Recorded::start();
    let store = Arc::<TestStore>::default();
    let fields = async |layer: RateLimitLayer| {
        recorded.send(&layer.layer(Probe::default()), span(), request(&[])).await
    };
    let users = || policy("users", 9).by(Header::named("x-user")).on_missing(OnMissing::Exempt);
    // An enforced policy exempts the request.
    let enforced =
        RateLimitLayer::new(recording(&store), users()).and(policy("tried", 9).by(Global).shadow());
    assert_eq!(fields(enforced).await, (200, "outcome=exempt policy=users".to_owned()));
    let exempt = RateLimitLayer::new(recording(&store), users().shadow());
    assert_eq!(fields(exempt).await, (200, "outcome=exempt policy=users".to_owned()));
    let skipped = RateLimitLayer::new(recording(&store), policy("tried", 9).by(Global).shadow());
    assert_eq!(fields(skipped.except(RequestPath::exact("/"))).await, (200, "outcome=skipped".to_owned()));
    let unidentified = RateLimitLayer::new(recording(&store), policy("tried", 9).by(Bearer).shadow());
    assert_eq!(fields(unidentified).await, (200, String::new()));

    store.set(Mode::Down);
    let down = RateLimitLayer::new(recording(&store), policy("tried", 9).by(Global).shadow());
    let (status, recorded) = fields(down).await;
    assert!(status == 200 && recorded.starts_with("outcome=degraded policy=tried"), "{recorded}");
}

#[tokio::test]
async fn requests_are_skipped_where_limits_are_off() {
    let (recorded, _guard) = Recorded::start();
    let off = Arc::new(Registry::off());
    off.observe(Arc::new(SpanFields::new()));
    let (service, _) = probed(&RateLimitLayer::new(off, policy("all", 9).by(Global)));
    assert_eq!(recorded.send(&service, span(), request(&[])).await, (200, "outcome=skipped".to_owned()));

    let registry = recording(&Arc::default());
    let (service, _) = probed(&RateLimitLayer::new(Arc::clone(&registry), policy("all", 9).by(Global)));
    registry.set_mode(&PolicyName::new("all").unwrap(), portcullis_tower::Mode::Off).unwrap();
    assert_eq!(recorded.send(&service, span(), request(&[])).await, (200, "outcome=skipped".to_owned()));
}

#[tokio::test]
async fn requests_that_are_not_counted_have_their_outcome() {
    let (recorded, _guard) = Recorded::start();
    let store = Arc::<TestStore>::default();
    let limited = |limit| RateLimitLayer::new(recording(&store), limit);
    let users = || policy("users", 9);
    let fields = async |layer: RateLimitLayer| {
        recorded.send(&layer.layer(Probe::default()), span(), request(&[])).await
    };

    let exempt = limited(users().by(Header::named("x-user")).on_missing(OnMissing::Exempt));
    assert_eq!(fields(exempt).await, (200, "outcome=exempt policy=users".to_owned()));
    let skipped = limited(users().by(Global)).except(RequestPath::exact("/"));
    assert_eq!(fields(skipped).await, (200, "outcome=skipped".to_owned()));
    let denied = limited(users().by(Global)).deny(RequestPath::exact("/"));
    assert_eq!(fields(denied).await, (403, "outcome=rejected reason=denied".to_owned()));
    let unidentified = limited(users().by(Bearer));
    assert_eq!(fields(unidentified).await, (401, "outcome=rejected reason=unauthenticated".to_owned()));
}

#[tokio::test]
async fn requests_during_an_outage_are_degraded_or_rejected() {
    let (recorded, _guard) = Recorded::start();
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    for (mode, status, expected) in [
        (FailureMode::Open, 200, "outcome=degraded policy=all"),
        (FailureMode::Closed, 503, "outcome=rejected reason=store_failed"),
    ] {
        let policy = policy("all", 9).on_store_failure(mode);
        let service = RateLimitLayer::new(recording(&store), policy.by(Global)).layer(Probe::default());
        let (answered, fields) = recorded.send(&service, span(), request(&[])).await;
        assert!(answered == status && fields.starts_with(expected), "{fields}");
    }
}
