//! Policies whose decisions the script repeats.

use std::sync::OnceLock;
use std::time::Duration;

use portcullis_core::{
    Anchor, FixedWindow, Policy, Quota, Refill, SlidingWindow, Strategy, Timestamp, TokenBucket, WindowTable,
};
use portcullis_testing::calendars;

/// Intervals with and without remainders of microseconds.
const QUOTAS: [Quota; 2] = [Quota::per_minute(7), Quota::per_minute(6)];

/// All algorithms and their options, calendars, anchors, quotas of single callers, and numbers near the largest.
pub(super) fn all() -> Vec<Policy> {
    [simple(), calendar_windows(), ends_of_calendars(), anchored(), of_callers(), wide()].concat()
}

fn simple() -> Vec<Policy> {
    let of = |(quota, names): (Quota, [&'static str; 9])| {
        let [bucket, refilled, spaced, waits, debt, queue, window, sliding, slots] = names;
        let interval = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
        let many = SlidingWindow::with_slots(quota, 10).unwrap();
        [
            Policy::token_bucket(bucket, quota.burst(20)),
            Policy::literal(refilled, Strategy::TokenBucket(interval)),
            Policy::gcra(spaced, quota.burst(5)),
            Policy::gcra(waits, quota.burst(3)).wait_at_most(Duration::from_secs(60)),
            Policy::gcra(debt, quota.burst(9)).allow_debt(30),
            Policy::leaky_bucket(queue, quota),
            Policy::fixed_window(window, quota),
            Policy::sliding_window(sliding, quota),
            Policy::literal(slots, Strategy::SlidingWindow(many)),
        ]
    };
    QUOTAS.into_iter().zip(NAMES).flat_map(of).collect()
}

const NAMES: [[&str; 9]; 2] = [
    ["bucket", "refilled", "spaced", "waits", "debt", "queue", "window", "sliding", "slots"],
    [
        "bucket-6",
        "refilled-6",
        "spaced-6",
        "waits-6",
        "debt-6",
        "queue-6",
        "window-6",
        "sliding-6",
        "slots-6",
    ],
];

fn calendar_windows() -> Vec<Policy> {
    let names = ["months", "weeks", "local-months"];
    names.into_iter().zip(calendars()).map(|(name, table)| Policy::calendar_window(name, 40, table)).collect()
}

/// Two versions of the data of one calendar, which share their states. The timelines begin before its first window, and go on after the
/// start of its last one, which does not end.
fn ends_of_calendars() -> Vec<Policy> {
    static TABLES: OnceLock<[WindowTable; 2]> = OnceLock::new();
    let table = |first, seconds: [u64; 2]| {
        let starts =
            seconds.map(|seconds| Timestamp::from_micros(1_600_000_000_000_000 + seconds * 1_000_000));
        WindowTable::new("minutes", first, Vec::from(starts).leak()).unwrap()
    };
    let tables = TABLES.get_or_init(|| [table(1, [300, 900]), table(1, [310, 930])]);
    tables.iter().map(|table| Policy::calendar_window("ends", 300, table)).collect()
}

/// Windows that begin with a key's first charge, and at instants that are not multiples of the period.
fn anchored() -> Vec<Policy> {
    let window = |anchor| FixedWindow::new(QUOTAS[0]).unwrap().anchored(anchor);
    let at = |micros| Anchor::Instant(Timestamp::from_micros(micros));
    vec![
        Policy::literal("first", Strategy::FixedWindow(window(Anchor::FirstRequest))),
        Policy::literal("odd", Strategy::FixedWindow(window(at(1_600_000_017_000_001)))),
        Policy::literal("future", Strategy::FixedWindow(window(at(4_000_000_000_000_007)))),
    ]
}

/// Each policy with its own quota and with those of other callers, which share its states.
fn of_callers() -> Vec<Policy> {
    let (few, own, many) = (Quota::per_minute(3), QUOTAS[0], Quota::per_minute(60));
    let rates = [few.burst(4), own.burst(20), many.burst(45), Quota::per_minute(11).burst(11)];
    let limits = [few, own, many, Quota::per_minute(11)];
    let each = |policy: Policy, quotas: [Quota; 4]| {
        let policy = policy.caller_quotas(quotas[0], quotas[2]);
        quotas.map(|quota| policy.with_quota(quota).unwrap())
    };
    [
        each(Policy::token_bucket("plan-bucket", rates[1]), rates),
        each(Policy::gcra("plan-gcra", rates[1]).allow_debt(50), rates),
        each(Policy::gcra("plan-waits", rates[1]).wait_at_most(Duration::from_secs(30)), rates),
        each(Policy::fixed_window("plan-window", limits[1]), limits),
        each(Policy::sliding_window("plan-sliding", limits[1]), limits),
    ]
    .concat()
}

/// The largest quotas, whose numbers in core exceed 2^53, and windows of many slots with counts of which a product does.
fn wide() -> Vec<Policy> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let quota = |limit, period| Quota::new(limit, period, None).unwrap();
    let (most, odd) = (quota(Quota::MAX_UNITS, minutes(1)), quota(123_456_789_012_345, minutes(7)));
    let slots = |limit, period, slots| {
        Strategy::SlidingWindow(SlidingWindow::with_slots(quota(limit, period), slots).unwrap())
    };
    let refilled = TokenBucket::new(odd).unwrap().refilled(Refill::Interval);
    vec![
        Policy::token_bucket("wide-bucket", most),
        Policy::gcra("wide-gcra", odd.burst(odd.limit() / 3 + 1)),
        Policy::literal("wide-refilled", Strategy::TokenBucket(refilled)),
        Policy::gcra("wide-debt", odd.burst(1_000)).allow_debt(odd.limit()),
        Policy::gcra("wide-waits", odd.burst(1)).wait_at_most(Duration::from_secs(3_600)),
        Policy::fixed_window("wide-window", most),
        Policy::literal("wide-slots", slots(SlidingWindow::MAX_LIMIT, minutes(10), 60)),
        // A part of a slot has more than 2^31 microseconds.
        Policy::literal("wide-sliding", slots(SlidingWindow::MAX_LIMIT - 1, minutes(30 * 24 * 60), 1)),
        Policy::literal("many-slots", slots(1_000, minutes(10), 100)),
    ]
}
