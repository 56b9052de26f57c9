//! The policy with its quota.

use portcullis::layer::{Concurrency, LockOut, Mode, Percent};
use portcullis::{Anchor, FailureMode, Policy, PolicyName, Quota, Refill, Timestamp, calendar};
use portcullis_core::{SlidingWindow, Strategy};
use toml::{Table, Value};

use super::{duration, flag, number, text};

pub(super) fn of(name: &str, table: &Table) -> Policy {
    let strategy = text(table, "strategy").expect("a policy has a strategy");
    let policy = match strategy {
        "token_bucket" => {
            let bucket = Policy::try_token_bucket(name, quota(table)).unwrap();
            match text(table, "refill") {
                Some("interval") => refilled(name, &bucket),
                _ => bucket,
            }
        }
        "gcra" => Policy::try_gcra(name, quota(table)).unwrap(),
        "leaky_bucket" => Policy::try_leaky_bucket(name, quota(table)).unwrap(),
        "fixed_window" => anchored(name, table),
        "sliding_window" => slotted(name, table),
        "sliding_log" => Policy::try_sliding_log(name, quota(table)).unwrap(),
        "calendar_window" => {
            let windows = calendar::windows(text(table, "windows").unwrap()).unwrap();
            Policy::try_calendar_window(name, number(table, "limit").unwrap(), windows).unwrap()
        }
        "in_flight" => return in_flight(name, table),
        other => panic!("no strategy {other}"),
    };
    let policy = match table.get("on_store_failure") {
        Some(mode) => policy.try_on_store_failure(failure_mode(mode)).unwrap(),
        None => policy,
    };
    let policy = number(table, "lease").map_or_else(|| policy.clone(), |units| policy.clone().lease(units));
    let policy =
        duration(table, "wait").map_or_else(|| policy.clone(), |wait| policy.clone().wait_at_most(wait));
    let policy =
        number(table, "debt").map_or_else(|| policy.clone(), |units| policy.clone().allow_debt(units));
    let policy = if flag(table, "overrides") { policy.allow_overrides() } else { policy };
    match range(table) {
        Some((smallest, largest)) => policy.caller_quotas(smallest, largest),
        None => policy,
    }
}

/// A limit on requests in flight, alone or beside another policy.
pub(super) fn in_flight(name: &str, table: &Table) -> Policy {
    concurrency(name, table).policy()
}

pub(super) fn concurrency(name: &str, table: &Table) -> Concurrency {
    let limit = Concurrency::try_new(name, number(table, "limit").unwrap()).unwrap();
    let limit = match table.get("on_store_failure") {
        Some(mode) => limit.on_store_failure(failure_mode(mode)),
        None => limit,
    };
    match duration(table, "lease") {
        Some(lease) => limit.lease(lease),
        None => limit,
    }
}

fn quota(table: &Table) -> Quota {
    if let Some(quota) = text(table, "quota") {
        return quota.parse().unwrap();
    }
    let limit: u64 = number(table, "limit").unwrap();
    let quota = Quota::new(limit, duration(table, "period").unwrap()).unwrap();
    match number(table, "burst") {
        Some(burst) => quota.try_burst(burst).unwrap(),
        None => quota,
    }
}

/// The smallest and the largest quota of callers: those that are named, or else of the tiers.
fn range(table: &Table) -> Option<(Quota, Quota)> {
    if let Some(range) = table.get("caller_quotas") {
        let [smallest, largest] = super::texts(range).try_into().expect("two quotas");
        return Some((smallest.parse().unwrap(), largest.parse().unwrap()));
    }
    let tiers = table.get("tiers")?.as_table().unwrap().values();
    let quotas = tiers.map(|quota| quota.as_str().unwrap().parse::<Quota>().unwrap());
    let all: Vec<_> = quotas.chain([quota(table)]).collect();
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
    let Some(value) = value else { return Mode::Enforce };
    match value.as_str() {
        Some("enforce") => Mode::Enforce,
        Some("shadow") => Mode::Shadow,
        Some("off") => Mode::Off,
        Some(percent) => Mode::Percent(Percent::new(percent.trim_end_matches('%').parse().unwrap())),
        None => Mode::Percent(Percent::new(number(value.as_table().unwrap(), "percent").unwrap())),
    }
}

pub(super) fn lock_out(table: &Table) -> LockOut {
    let lock_out = LockOut::after(number(table, "after").unwrap());
    let lock_out = duration(table, "within").map_or(lock_out, |within| lock_out.within(within));
    let lock_out = duration(table, "block_for").map_or(lock_out, |block| lock_out.block_for(block));
    duration(table, "up_to").map_or(lock_out, |longest| lock_out.up_to(longest))
}

fn refilled(name: &str, bucket: &Policy) -> Policy {
    let Strategy::TokenBucket(bucket) = bucket.strategy() else { unreachable!("it is a bucket") };
    Policy::new(PolicyName::new(name).unwrap(), Strategy::TokenBucket(bucket.refilled(Refill::Interval)))
}

fn anchored(name: &str, table: &Table) -> Policy {
    let window = Policy::try_fixed_window(name, quota(table)).unwrap();
    let Strategy::FixedWindow(kind) = *window.strategy() else { unreachable!("it is a window") };
    let anchor = match table.get("anchor") {
        Some(Value::Integer(micros)) => {
            Anchor::Instant(Timestamp::from_micros(u64::try_from(*micros).unwrap()))
        }
        Some(Value::String(text)) if text == "first_request" => Anchor::FirstRequest,
        _ => return window,
    };
    Policy::new(PolicyName::new(name).unwrap(), Strategy::FixedWindow(kind.anchored(anchor)))
}

fn slotted(name: &str, table: &Table) -> Policy {
    match number(table, "slots") {
        Some(slots) => {
            let window = SlidingWindow::with_slots(quota(table), slots).unwrap();
            Policy::new(PolicyName::new(name).unwrap(), Strategy::SlidingWindow(window))
        }
        None => Policy::try_sliding_window(name, quota(table)).unwrap(),
    }
}
