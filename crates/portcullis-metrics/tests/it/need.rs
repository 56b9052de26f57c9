//! A policy has the series that it can count in, and no others.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::LockOut;
use portcullis_core::{Concurrency, Policy, PolicyName, Quota};
use portcullis_tower::{Global, Header, Limit, PolicyExt as _, RateLimitLayer, Registry};

use crate::support::{Recorded, from_user, send};

/// The counters and histograms of the policy `p`, without the figures of the store: a metric, and its other label.
fn series(recorded: &Recorded) -> Vec<String> {
    let of_policy = |name: String| {
        let (metric, labels) = name.split_once('{')?;
        let metric = metric.strip_prefix("portcullis_")?;
        if metric.starts_with("store_") || labels.contains("quantile") {
            return None;
        }
        let label = labels.strip_prefix("policy=\"p\"")?.trim_matches([',', '}']);
        let value = label.split('"').nth(1).map(|value| format!(" {value}")).unwrap_or_default();
        Some(format!("{}{value}", metric.trim_end_matches("_total")))
    };
    recorded.series().into_keys().filter_map(of_policy).collect()
}

fn policy() -> Policy {
    Policy::fixed_window("p", Quota::per_week(9))
}

/// What a policy in a layer has in addition to a plain one that is enforced.
fn added_by(limit: Limit) -> Vec<String> {
    let (registry, recorded) = Recorded::registry(1_000);
    let _service = applied(&registry, limit);
    recorded.metrics.refresh(&registry);
    let mut series = series(&recorded);
    series.retain(|one| !PLAIN.contains(&one.as_str()));
    series
}

/// A layer is listed while it is applied to a service.
fn applied(registry: &Arc<Registry>, limit: Limit) -> impl Sized {
    use tower::Layer as _;
    RateLimitLayer::new(Arc::clone(registry), limit).layer(tower::service_fn(
        async |_: http::Request<String>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
        },
    ))
}

const MINUTE: Duration = Duration::from_secs(60);
const PLAIN: [&str; 4] = ["charged_units", "decisions allowed", "decisions denied", "refunded_units"];

#[test]
fn plain_policies_have_four_series() {
    let (registry, recorded) = Recorded::registry(1_000);
    let _service = applied(&registry, policy().by(Global));
    recorded.metrics.refresh(&registry);
    assert_eq!(series(&recorded), PLAIN);
}

#[test]
fn policies_of_handlers_have_the_same_series() {
    let (registry, recorded) = Recorded::registry(1_000);
    registry.register(&policy()).unwrap();
    recorded.metrics.refresh(&registry);
    assert_eq!(series(&recorded), PLAIN);
}

#[test]
fn options_add_the_series_they_can_cause() {
    let none: [&str; 0] = [];
    let plain = || policy().by(Global);
    assert_eq!(added_by(plain().cost(3)), none);
    assert_eq!(added_by(plain().warn_at(0.8)), ["soft_limit"]);
    assert_eq!(added_by(plain().charge_when(|outcome| outcome.status() == 401)), ["uncharged_units"]);
    assert_eq!(added_by(plain().shadow()), ["would_reject limited", "would_reject unidentified"]);
    let waiting = Policy::gcra("p", Quota::per_second(1)).wait_at_most(Duration::from_secs(1));
    assert_eq!(added_by(waiting.by(Global)), ["wait_seconds_count", "wait_seconds_sum"]);
    assert_eq!(
        added_by(Concurrency::new("p", 4).by(Global)),
        ["permits acquired", "permits lapsed", "permits released", "warnings upgrade_released"]
    );
    let individual = policy().caller_quotas(Quota::per_week(1), Quota::per_week(9)).by(Global);
    assert_eq!(
        added_by(individual),
        ["identity_errors quota_lookup_failed", "identity_errors quota_refused"]
    );
    let blocking = policy().allow_overrides().by(Global);
    assert_eq!(added_by(blocking.clone()), ["decisions blocked"]);
    let lock_out = LockOut::after(3).within(MINUTE).block_for(MINUTE);
    assert_eq!(
        added_by(blocking.by(Header::named("x-user")).lock_out(lock_out)),
        ["decisions blocked", "lock_outs"]
    );
}

#[tokio::test]
async fn events_begin_what_was_not_foreseen() {
    let (registry, recorded) = Recorded::registry(1_000);
    let layer = RateLimitLayer::new(registry, policy().by(Header::named("x-user")));
    assert_eq!(series(&recorded), [""; 0]);
    assert_eq!(send(&layer, from_user("ada")).await, 200);
    assert_eq!(series(&recorded), ["charged_units", "decisions allowed"]);
    assert_eq!(send(&layer, http::Request::new(String::new())).await, 400);
    assert_eq!(series(&recorded), ["charged_units", "decisions allowed", "identity_errors missing"]);
}

#[test]
fn ten_policies_have_ninety_lines() {
    let (registry, recorded) = Recorded::registry(1_000);
    let lines = || {
        recorded.metrics.refresh(&registry);
        recorded.text().lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
    };
    let without = lines();
    for number in 0..10 {
        let name = PolicyName::new(&format!("p{number}")).unwrap();
        registry.register(&Policy::new(name, *policy().strategy())).unwrap();
    }
    // Five of each policy are figures of the memory.
    assert_eq!(lines() - without, 10 * (PLAIN.len() + 5));
}
