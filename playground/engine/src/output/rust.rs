//! A lane as Rust.

use std::fmt::Write as _;
use std::time::Duration;

use portcullis_core::{Anchor, FailureMode, Policy, Quota, Refill, Strategy};

use super::left_out;
use crate::scene::{Dialect, KeyKind, LaneSettings, Scene, StoreKind};

/// A function that makes the layer of a lane. `None` without limits.
pub(super) fn of(scene: &Scene, lane: &LaneSettings) -> Option<String> {
    lane.limits.first()?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    for line in uses(lane) {
        let _ = writeln!(text, "use {line};");
    }
    text.push('\n');
    text.push_str(&left_out(scene, lane, "//"));
    match lane.store {
        StoreKind::Share => {
            let _ = writeln!(
                text,
                "/// `limiter` is `Limiter::new(InstanceShare::new(MemoryStore::new(), {}))` of `portcullis::store`.",
                lane.instances
            );
        }
        StoreKind::Shared => text.push_str(
            "/// `limiter` is `Limiter::memory()`, or `Limiter::redis(url)` for several instances.\n",
        ),
    }
    text.push_str(
        "pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {\n",
    );
    for (index, limit) in lane.limits.iter().enumerate() {
        let key = match limit.key {
            KeyKind::Client => "ClientIp::peer()",
            KeyKind::All => "Global",
        };
        let _ = writeln!(text, "    let limit{} = {}.by({key});", index + 1, policy(&limit.policy));
    }
    text.push_str("    Ok(limiter.layer(limit1)");
    for number in 2..=lane.limits.len() {
        let _ = write!(text, ".and(limit{number})");
    }
    if lane.headers != Dialect::default() {
        let _ = write!(text, ".headers({})", lane.headers.names()[1]);
    }
    if lane.spread > 0 {
        let _ = write!(text, ".spread_retries({})", duration(Duration::from_millis(lane.spread)));
    }
    text.push_str(")\n}\n");
    Some(text)
}

/// The lines of `use`.
fn uses(lane: &LaneSettings) -> Vec<&'static str> {
    let text = expressions(lane);
    let mut uses = Vec::new();
    if lane.headers != Dialect::default() {
        uses.push("portcullis::headers::RateLimitHeaders");
    }
    if lane.limits.iter().any(|limit| limit.key == KeyKind::All) {
        uses.push("portcullis::key::Global");
    }
    if lane.limits.iter().any(|limit| limit.key == KeyKind::Client) {
        uses.push("portcullis::ClientIp");
    }
    uses.extend(USES.iter().filter(|(name, _)| text.contains(name)).map(|(_, line)| *line));
    uses.push("portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer}");
    uses
}

/// What a name in an expression needs.
const USES: [(&str, &str); 12] = [
    ("Anchor::", "portcullis::Anchor"),
    ("Calendar::", "portcullis::calendar::Calendar"),
    ("CalendarWindow::", "portcullis::store::CalendarWindow"),
    ("Duration::", "std::time::Duration"),
    ("FailureMode::", "portcullis::FailureMode"),
    ("FixedWindow::", "portcullis::store::FixedWindow"),
    ("InFlight::", "portcullis::store::InFlight"),
    ("PolicySettings::", "portcullis::PolicySettings"),
    ("Quota::", "portcullis::Quota"),
    ("Refill::", "portcullis::{Refill, store::TokenBucket}"),
    ("SlidingWindow::", "portcullis::store::SlidingWindow"),
    ("Timestamp::", "portcullis::Timestamp"),
];

/// All expressions of the lane, to find what they use.
fn expressions(lane: &LaneSettings) -> String {
    let mut text: String = lane.limits.iter().map(|limit| policy(&limit.policy)).collect();
    if lane.spread > 0 {
        text.push_str("Duration::");
    }
    text
}

/// The expression that makes a policy.
fn policy(policy: &Policy) -> String {
    let (name, strategy) = (policy.name().as_str(), policy.strategy());
    let quota = strategy.quota().map_or_else(String::new, quota);
    let try_new =
        |strategy: String| format!("Policy::try_new({name:?}, {strategy}, PolicySettings::default())?");
    let mut text = match strategy {
        Strategy::FixedWindow(window) if window.anchor() != Anchor::Epoch => {
            let anchor = match window.anchor() {
                Anchor::Instant(instant) => {
                    format!("Anchor::Instant(Timestamp::from_micros({}))", instant.as_micros())
                }
                other => format!("Anchor::{other:?}"),
            };
            try_new(format!("FixedWindow::new({quota}).map(|window| window.anchored({anchor}))"))
        }
        Strategy::SlidingWindow(window) if window.slots() != 1 => {
            try_new(format!("SlidingWindow::with_slots({quota}, {})", window.slots()))
        }
        Strategy::TokenBucket(bucket) if bucket.refill() == Refill::Interval => {
            try_new(format!("TokenBucket::new({quota}).map(|bucket| bucket.refilled(Refill::Interval))"))
        }
        Strategy::InFlight(limit) => try_new(format!(
            "InFlight::new({}).and_then(|limit| limit.with_lease({}))",
            limit.limit(),
            duration(limit.lease())
        )),
        Strategy::CalendarWindow(window) => {
            try_new(format!("CalendarWindow::new({}, Calendar::monthly().in_zone(\"UTC\")?)", window.limit()))
        }
        other => format!("Policy::{}({name:?}, {quota})", other.tag()),
    };
    match policy.failure_mode() {
        mode if mode == FailureMode::default() => {}
        FailureMode::Open => text.push_str(".on_store_failure(FailureMode::Open)"),
        FailureMode::Closed => text.push_str(".on_store_failure(FailureMode::Closed)"),
        FailureMode::OpenFor(outage) => {
            let _ = write!(text, ".on_store_failure(FailureMode::OpenFor({}))", duration(outage));
        }
        FailureMode::Local { instances } => {
            let _ = write!(text, ".on_store_failure(FailureMode::local({instances}))");
        }
        _ => {}
    }
    if let Some(wait) = policy.max_wait().filter(|_| !matches!(strategy, Strategy::LeakyBucket(_))) {
        let _ = write!(text, ".wait_at_most({})", duration(wait));
    }
    if let Some(units) = policy.max_lease() {
        let _ = write!(text, ".lease({units})");
    }
    if let Some(units) = policy.max_debt() {
        let _ = write!(text, ".allow_debt({units})");
    }
    if let Some((smallest, largest)) = policy.quota_range() {
        let _ = write!(text, ".caller_quotas({}, {})", self::quota(smallest), self::quota(largest));
    }
    if policy.reads_overrides() {
        text.push_str(".allow_overrides()");
    }
    text
}

fn quota(quota: Quota) -> String {
    if quota.is_unlimited() {
        return "Quota::UNLIMITED".to_owned();
    }
    let limit = quota.limit();
    let period = match quota.period().as_micros() {
        1_000_000 => format!("Quota::per_second({limit})"),
        60_000_000 => format!("Quota::per_minute({limit})"),
        3_600_000_000 => format!("Quota::per_hour({limit})"),
        86_400_000_000 => format!("Quota::per_day({limit})"),
        _ => format!("Quota::per({limit}, {})", duration(quota.period())),
    };
    match quota.explicit_burst() {
        Some(burst) => format!("{period}.burst({burst})"),
        None => period,
    }
}

fn duration(time: Duration) -> String {
    match time.as_micros() {
        micros if micros % 1_000_000 == 0 => format!("Duration::from_secs({})", micros / 1_000_000),
        micros if micros % 1_000 == 0 => format!("Duration::from_millis({})", micros / 1_000),
        micros => format!("Duration::from_micros({micros})"),
    }
}
