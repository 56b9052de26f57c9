//! The policy with its quota.

use portcullis::layer::{LockOut, Mode, Percent};
use portcullis::store::{
    CalendarWindow, FixedWindow, Gcra, InFlight, LeakyBucket, SlidingLog, SlidingWindow, Strategy,
    TokenBucket,
};
use portcullis::{Anchor, FailureMode, Policy, PolicySettings, Quota, Refill, Timestamp, calendar};
use toml::{Table, Value};

use super::{duration, flag, number, text};

pub(super) fn of(name: &str, table: &Table) -> Policy {
    let limit = || number(table, "limit").unwrap();
    let strategy: Result<Strategy, _> = match text(table, "strategy").expect("a policy has a strategy") {
        "token_bucket" => {
            let is_interval = text(table, "refill") == Some("interval");
            let refill = if is_interval { Refill::Interval } else { Refill::Greedy };
            TokenBucket::new(quota(table)).map(|bucket| bucket.refilled(refill).into())
        }
        "gcra" => Gcra::new(quota(table)).map(Into::into),
        "leaky_bucket" => LeakyBucket::new(quota(table)).map(Into::into),
        "fixed_window" => FixedWindow::new(quota(table)).map(|window| window.anchored(anchor(table)).into()),
        "sliding_window" => {
            let slots = number(table, "slots").unwrap_or(1);
            SlidingWindow::with_slots(quota(table), slots).map(Into::into)
        }
        "sliding_log" => SlidingLog::new(quota(table)).map(Into::into),
        "calendar_window" => {
            let windows = calendar::windows(text(table, "windows").unwrap()).unwrap();
            CalendarWindow::new(limit(), windows).map(Into::into)
        }
        "in_flight" => return in_flight(name, table),
        other => panic!("no strategy {other}"),
    };
    let settings = PolicySettings {
        failure_mode: table.get("on_store_failure").map(failure_mode).unwrap_or_default(),
        max_lease: number(table, "lease"),
        max_wait: duration(table, "wait"),
        max_debt: number(table, "debt"),
        caller_quotas: range(table),
        allow_overrides: flag(table, "overrides"),
    };
    Policy::try_new(name, strategy, settings).unwrap()
}

/// A limit on requests in flight, alone or beside another policy.
pub(super) fn in_flight(name: &str, table: &Table) -> Policy {
    let lease = duration(table, "lease").unwrap_or(InFlight::DEFAULT_LEASE);
    let limit = InFlight::new(number(table, "limit").unwrap()).and_then(|limit| limit.with_lease(lease));
    let failure_mode = table.get("on_store_failure").map(failure_mode).unwrap_or_default();
    let max_wait = duration(table, "wait");
    Policy::try_new(name, limit, PolicySettings { failure_mode, max_wait, ..PolicySettings::default() })
        .unwrap()
}

fn quota(table: &Table) -> Quota {
    if let Some(quota) = text(table, "quota") {
        return quota.parse().unwrap();
    }
    let limit: u64 = number(table, "limit").unwrap();
    Quota::new(limit, duration(table, "period").unwrap(), number(table, "burst")).unwrap()
}

/// The smallest and the largest quota of callers: those that are named, or else of the tiers.
fn range(table: &Table) -> Option<(Quota, Quota)> {
    if let Some(range) = table.get("caller_quotas") {
        let [smallest, largest] = super::texts(range).try_into().expect("two quotas");
        return Some((smallest.parse().unwrap(), largest.parse().unwrap()));
    }
    let tiers = table.get("tiers")?.as_table().unwrap().values();
    let quotas = tiers.map(|quota| quota.as_str().unwrap().parse::<Quota>().unwrap());
    // Those that count nothing are in no range.
    let counts = |quota: &Quota| quota.limit() > 0 && *quota != Quota::UNLIMITED;
    let all: Vec<_> = quotas.chain([quota(table)]).filter(counts).collect();
    let smallest = all.iter().min_by_key(|quota| quota.limit()).unwrap();
    let largest = all.iter().max_by_key(|quota| quota.limit()).unwrap();
    Some((*smallest, *largest))
}

fn failure_mode(value: &Value) -> FailureMode {
    let table = match value {
        Value::String(name) => {
            return match name.as_str() {
                "local" => FailureMode::local(1),
                "open" => FailureMode::Open,
                "closed" => FailureMode::Closed,
                other => panic!("no failure mode {other}"),
            };
        }
        other => other.as_table().expect("a failure mode is a text or a table"),
    };
    match (number(table, "local"), duration(table, "open_for")) {
        (Some(instances), None) => FailureMode::local(instances),
        (None, Some(outage)) => FailureMode::OpenFor(outage),
        _ => panic!("no failure mode: {table:?}"),
    }
}

pub(super) fn mode(value: Option<&Value>) -> Mode {
    let share = |text: &str| Percent::new(text.trim_end_matches('%').parse().unwrap());
    let Some(value) = value else { return Mode::Enforce };
    match value.as_str() {
        Some("enforce") => Mode::Enforce,
        Some("shadow") => Mode::Shadow,
        Some("off") => Mode::Off,
        Some(text) => match text.strip_prefix("shadow ") {
            Some(shadow) => Mode::ShadowPercent(share(shadow)),
            None => Mode::Percent(share(text)),
        },
        None => Mode::Percent(Percent::new(number(value.as_table().unwrap(), "percent").unwrap())),
    }
}

pub(super) fn lock_out(table: &Table) -> LockOut {
    let lock_out = LockOut::after(number(table, "after").unwrap());
    let lock_out = duration(table, "within").map_or(lock_out, |within| lock_out.within(within));
    let lock_out = duration(table, "block_for").map_or(lock_out, |block| lock_out.block_for(block));
    duration(table, "up_to").map_or(lock_out, |longest| lock_out.up_to(longest))
}

fn anchor(table: &Table) -> Anchor {
    match table.get("anchor") {
        Some(Value::Integer(micros)) => {
            Anchor::Instant(Timestamp::from_micros(u64::try_from(*micros).unwrap()))
        }
        Some(Value::String(text)) if text == "first_request" => Anchor::FirstRequest,
        _ => Anchor::Epoch,
    }
}
