//! Soft limits: requests that pass near a limit are marked and reported.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use portcullis_core::{FailureMode, ManualClock, Policy, Quota, Secret};
use portcullis_memory::Fallback;
use portcullis_tower::{
    Charge, Event, EventKind, Global, Header, LayerOptionError, Limit, OnMissing, PolicyExt as _,
    RateLimitHeaders, RateLimitLayer, Registry,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::log::log;
use crate::probe::{probed, request, send};
use crate::support::{Mode, TestStore, mistake, registry, registry_of};

const WARNING: &str = "x-ratelimit-warning";

fn daily(limit: u64) -> Policy {
    Policy::fixed_window("daily", Quota::per_day(limit))
}

fn total(limit: u64) -> Policy {
    Policy::fixed_window("total", Quota::per_hour(limit))
}

/// The policies that were reported, in order.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<Vec<String>>>);

impl Reported {
    fn by(registry: &Registry) -> Self {
        let reported = Self::default();
        let sink = reported.clone();
        registry.observe(Arc::new(move |event: &Event<'_>| {
            if let EventKind::SoftLimitReached { decision } = event.kind {
                sink.0.lock().unwrap().push(decision.policy().to_string());
            }
        }));
        reported
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The warnings in the responses to this number of requests, `429` where one is rejected.
async fn warnings(layer: &RateLimitLayer, requests: usize) -> Vec<String> {
    let (service, _) = probed(layer);
    let mut warnings = Vec::new();
    for _ in 0..requests {
        let answer = send(&service, request(&[])).await;
        warnings.push(match answer.status {
            200 => answer.header(WARNING).unwrap_or_default().to_owned(),
            status => {
                assert_eq!(answer.header(WARNING), None, "a rejection needs no warning");
                status.to_string()
            }
        });
    }
    warnings
}

#[tokio::test]
async fn requests_from_the_fraction_on_are_marked_and_reported() {
    for mode in [Mode::Ready, Mode::Later] {
        for with_charge in [false, true] {
            let store = Arc::<TestStore>::default();
            store.set(mode);
            let registry = registry_of(store);
            let reported = Reported::by(&registry);
            let layer = RateLimitLayer::new(registry, daily(5).by(Global).warn_at(0.8));
            let layer = if with_charge { layer.with_charge() } else { layer };
            let expected = ["", "", "", r#""daily""#, r#""daily""#, "429"];
            assert_eq!(warnings(&layer, 6).await, expected, "{mode:?} {with_charge}");
            assert_eq!(reported.take(), ["daily", "daily"], "{mode:?} {with_charge}");
        }
    }
}

#[tokio::test]
async fn each_policy_has_a_fraction_of_its_own() {
    let registry = registry();
    let reported = Reported::by(&registry);
    let layer = RateLimitLayer::new(registry, daily(5).by(Global).warn_at(0.8))
        .and(Limit::new(total(4)).warn_at(0.25));
    let both = r#""daily", "total""#;
    assert_eq!(warnings(&layer, 4).await, [r#""total""#, r#""total""#, r#""total""#, both]);
    assert_eq!(reported.take(), ["total", "total", "total", "daily", "total"]);

    let only_first = RateLimitLayer::new(crate::support::registry(), daily(1).by(Global).warn_at(0.5));
    let layer = only_first.and(total(9));
    assert_eq!(warnings(&layer, 1).await, [r#""daily""#], "the option is that of one policy");
}

#[tokio::test]
async fn unlisted_policies_and_layers_without_figures_only_report() {
    let unlisted = |registry, limit: Limit| RateLimitLayer::new(registry, limit.hide());
    let no_headers = |registry, limit| RateLimitLayer::new(registry, limit).headers(RateLimitHeaders::NONE);
    for layer in [unlisted, no_headers] {
        let registry = registry();
        let reported = Reported::by(&registry);
        let layer = layer(registry, daily(2).by(Global).warn_at(0.5));
        assert_eq!(warnings(&layer, 3).await, ["", "", "429"]);
        assert_eq!(reported.take(), ["daily", "daily"]);
        assert!(!layer.exposed_headers().iter().any(|name| name == WARNING));
    }
}

#[tokio::test]
async fn shadow_policies_and_uncounted_requests_do_not_warn() {
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let reported = Reported::by(&registry);
    let exempt = daily(2).on_store_failure(FailureMode::Open);
    let layer = RateLimitLayer::new(
        registry,
        exempt.by(Header::named("x-user")).on_missing(OnMissing::Exempt).warn_at(0.1),
    )
    .and(total(1).by(Global).shadow().warn_at(0.1));
    assert_eq!(warnings(&layer, 2).await, ["", ""]);
    store.set(Mode::Down);
    let answer = send(&probed(&layer).0, request(&[("x-user", "ada")])).await;
    assert_eq!((answer.header("x-ratelimit-degraded"), answer.header(WARNING)), (Some("true"), None));
    assert_eq!(reported.take(), <[&str; 0]>::default());
}

#[tokio::test]
async fn a_local_policy_warns_by_its_share() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let store = Fallback::builder(store).clock(ManualClock::default()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let policy = daily(8).on_store_failure(FailureMode::local(2));
    let layer = RateLimitLayer::new(registry, policy.by(Global).warn_at(0.75));
    assert_eq!(warnings(&layer, 5).await, ["", "", r#""daily""#, r#""daily""#, "429"]);
}

#[tokio::test]
async fn a_rate_based_policy_warns_by_its_burst() {
    let bucket = Policy::token_bucket("bucket", Quota::per_hour(100).burst(4));
    let layer = RateLimitLayer::new(registry(), bucket.by(Global).warn_at(0.5)).with_charge();
    assert_eq!(warnings(&layer, 5).await, ["", r#""bucket""#, r#""bucket""#, r#""bucket""#, "429"]);
    let spaced = Policy::gcra("spaced", Quota::per_second(1));
    let layer = RateLimitLayer::new(registry(), spaced.by(Global).warn_at(0.999)).with_charge();
    assert_eq!(warnings(&layer, 1).await, [r#""spaced""#], "a burst of 1 is used up by each request");
}

/// The warnings of a response whose handler settles its charge at `cost`.
async fn settled_at(layer: &RateLimitLayer, cost: u64) -> Vec<String> {
    let service = layer.layer(service_fn(async |request: Request<String>| {
        request.extensions().get::<Charge>().unwrap().settle(cost).await.unwrap();
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    response.headers().get_all(WARNING).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_header_follows_the_figures_of_the_response() {
    let registry = registry();
    let reported = Reported::by(&registry);
    let layer = RateLimitLayer::new(registry, daily(10).by(Global).warn_at(0.8)).with_charge();
    assert_eq!(settled_at(&layer, 8).await, [r#""daily""#]);
    assert_eq!(reported.take(), <[&str; 0]>::default(), "it was not near the limit at its admission");
    assert_eq!(settled_at(&layer, 0).await, [r#""daily""#], "8 are used by the other request");
    assert_eq!(reported.take(), ["daily"]);
}

#[tokio::test]
async fn nested_layers_add_their_warnings() {
    let registry = registry();
    let layers = (
        RateLimitLayer::new(Arc::clone(&registry), total(1).by(Global).warn_at(0.5)),
        RateLimitLayer::new(registry, daily(1).by(Global).warn_at(0.5)),
    );
    let service = layers
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    let warnings: Vec<_> = response.headers().get_all(WARNING).iter().collect();
    assert_eq!(warnings, [r#""daily""#, r#""total""#]);
}

#[tokio::test]
async fn the_log_counts_warnings_once_a_minute() {
    let (log, _guard) = log();
    let layer = RateLimitLayer::new(registry(), daily(9).by(Global).warn_at(0.1));
    warnings(&layer, 9).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("INFO requests come near a limit") && lines[0].contains("policy=daily"));
}

#[test]
fn a_layer_that_warns_exposes_the_header() {
    let exposed = |limit| RateLimitLayer::new(registry(), limit).exposed_headers();
    assert!(!exposed(daily(2).by(Global)).iter().any(|name| name == WARNING));
    let exposed = exposed(daily(2).by(Global).warn_at(0.8));
    assert!(exposed.iter().any(|name| name == WARNING), "{exposed:?}");
    assert_eq!(exposed.last().unwrap(), "retry-after");
}

#[test]
fn a_fraction_outside_of_its_range_is_an_error() {
    for fraction in [0.0, 1.0, -0.5, 80.0] {
        let error = mistake(&registry(), [daily(2).by(Global).warn_at(fraction)]);
        assert_eq!(error, LayerOptionError::WarnAt { fraction }.into());
    }
    assert!(RateLimitLayer::try_new(registry(), [daily(2).by(Global).warn_at(f64::NAN)]).is_err());
}

#[test]
#[should_panic(
    expected = "a policy cannot warn at 80 of its limit: use a fraction above 0 and below 1, such as 0.8"
)]
fn a_percentage_panics() {
    let _ = RateLimitLayer::new(registry(), daily(2).by(Global).warn_at(80.0));
}
