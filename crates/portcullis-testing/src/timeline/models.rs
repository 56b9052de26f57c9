//! Generates the policies of timelines.

use std::time::Duration;

use portcullis_core::{Anchor, InFlight, Quota, Refill, SlidingWindow, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;

use super::callers::{SLOWEST_TO_FILL, fills_soon, with_callers};
use super::drive::LATEST_START;
use super::{AlgorithmKind, Profile};
use crate::calendars;
use crate::oracle::{Kind, Model};

/// Half of them with a debt of their own and, if quotas may change, a third with quotas of single callers.
pub(super) fn models(profile: Profile) -> BoxedStrategy<Model> {
    let debts = prop_oneof![
        4 => Just(None),
        1 => Just(Some((0, 1))),
        1 => (0_u64..40, Just(1)).prop_map(Some),
        2 => (0_u64..80, Just(16)).prop_map(Some),
    ];
    let models = (plain_models(profile.algorithm), debts).prop_map(|(model, debt)| match debt {
        Some((units, 16)) => with_debt(model, u128::from(model.capacity()) * u128::from(units) / 16),
        Some((units, _)) => with_debt(model, units.into()),
        None => model,
    });
    if !profile.quota_changes {
        return models.boxed();
    }
    let parts = proptest::option::weighted(0.3, (0_u64..=16, 1_u64..10, 0_u64..=16, 1_u64..10));
    (models, parts).prop_map(|(model, parts)| parts.map_or(model, |parts| with_callers(model, parts))).boxed()
}

/// A model with about this debt, which is soon replenished.
fn with_debt(model: Model, units: u128) -> Model {
    let most = match model.kind {
        Kind::TokenBucket | Kind::IntervalTokenBucket | Kind::Gcra | Kind::LeakyBucket => {
            u128::from(SLOWEST_TO_FILL) * u128::from(model.quota.limit()) / u128::from(model.period())
        }
        Kind::SlidingWindow(_) => u128::from(SlidingWindow::MAX_LIMIT),
        Kind::FixedWindow(_) | Kind::CalendarWindow(_) | Kind::SlidingLog => u128::from(Quota::MAX_UNITS),
        Kind::InFlight => return model,
    };
    let units = units.min(most).min(Quota::MAX_UNITS.into());
    model.allow_debt(u64::try_from(units).expect("a debt is bounded"))
}

fn plain_models(algorithm: Option<AlgorithmKind>) -> BoxedStrategy<Model> {
    match algorithm {
        Some(AlgorithmKind::TokenBucket) => token_buckets().boxed(),
        Some(AlgorithmKind::Gcra) => rate_based(Model::gcra).boxed(),
        Some(AlgorithmKind::LeakyBucket) => rate_based(Model::leaky_bucket).boxed(),
        Some(AlgorithmKind::FixedWindow) => fixed_windows().boxed(),
        Some(AlgorithmKind::CalendarWindow) => calendar_windows().boxed(),
        Some(AlgorithmKind::SlidingWindow) => sliding_windows().boxed(),
        Some(AlgorithmKind::SlidingLog) => sliding_logs().boxed(),
        Some(AlgorithmKind::InFlight) => limits_in_flight().boxed(),
        None => prop_oneof![
            token_buckets(),
            rate_based(Model::gcra),
            rate_based(Model::leaky_bucket),
            fixed_windows(),
            calendar_windows(),
            sliding_windows(),
            sliding_logs(),
            limits_in_flight(),
        ]
        .boxed(),
    }
}

fn token_buckets() -> impl Strategy<Value = Model> {
    prop_oneof![
        rate_based(|quota| Model::token_bucket(quota, Refill::Greedy)),
        rate_based(|quota| Model::token_bucket(quota, Refill::Interval)),
    ]
}

/// With or without a burst and a longest wait. Where the bucket would be invalid or fill too slowly, the burst is 1.
fn rate_based(model: fn(Quota) -> Model) -> impl Strategy<Value = Model> {
    let bursts = prop_oneof![
        2 => Just(None),
        6 => (2_u64..=10).prop_map(Some),
        4 => limits().prop_map(Some),
        1 => large_limits().prop_map(Some),
    ];
    // In quarters of the time that the rate needs for a unit.
    let waits = prop_oneof![2 => Just(None), 1 => (1_u64..40, 0_u64..2).prop_map(Some)];
    (any_quotas(), bursts, waits).prop_map(move |(quota, burst, wait)| {
        let with = |burst| quota.burst(burst);
        let asked = model(burst.map_or(quota, with));
        let model = if fills_soon(asked) { asked } else { model(with(1)) };
        let Some((quarters, more)) = wait else { return model };
        let waits = waiting(model, quarters, more);
        if fills_soon(waits) { waits } else { model }
    })
}

/// A model with a longest wait, if its period is not too long for that.
fn waiting(model: Model, quarters: u64, more: u64) -> Model {
    let period = model.period();
    let least = if model.kind == Kind::IntervalTokenBucket { period } else { 1 };
    if least > LONGEST_WAIT {
        return model;
    }
    let wait = (period / model.quota.limit()).saturating_mul(quarters) / 4 + more;
    model.wait_at_most(Duration::from_micros(wait.clamp(least, LONGEST_WAIT)))
}

fn fixed_windows() -> impl Strategy<Value = Model> {
    let anchors = prop_oneof![
        Just(Anchor::Epoch),
        Just(Anchor::FirstRequest),
        (0..LATEST_START).prop_map(|micros| Anchor::Instant(Timestamp::from_micros(micros))),
    ];
    (any_quotas(), anchors).prop_map(|(quota, anchor)| Model::fixed_window(quota, anchor))
}

fn calendar_windows() -> impl Strategy<Value = Model> {
    let limits = prop_oneof![9 => limits(), 1 => large_limits()];
    (limits, select(calendars())).prop_map(|(limit, table)| {
        let table = calendars().iter().find(|known| **known == table).expect("it is one of them");
        Model::calendar_window(limit, table).expect("limits are within their bounds")
    })
}

/// A thousand slots are rare, because each access reads and writes a thousand numbers.
fn sliding_windows() -> impl Strategy<Value = Model> {
    let slots = prop_oneof![
        40 => select(&[1_u32, 2, 3, 6, 10, 24, 60][..]),
        1 => Just(1_000)
    ];
    (quotas(), slots).prop_map(|(quota, slots)| {
        let model = Model::sliding_window(quota, slots);
        if model.strategy().is_ok() { model } else { Model::sliding_window(quota, 1) }
    })
}

fn sliding_logs() -> impl Strategy<Value = Model> {
    let limits = prop_oneof![4 => 1_u64..=5, 3 => 1_u64..=100, 1 => 1_u64..=LONGEST_LOG];
    (limits, periods()).prop_map(|(limit, period)| Model::sliding_log(quota(limit, period)))
}

fn limits_in_flight() -> impl Strategy<Value = Model> {
    let limits = prop_oneof![6 => 1_u64..=8, 2 => 1_u64..=50, 1 => 1_u64..=InFlight::MAX_LIMIT];
    let leases =
        prop_oneof![3 => select(&[SECOND, 30 * SECOND, 3_600 * SECOND][..]), 1 => SECOND..=3_600 * SECOND];
    (limits, leases).prop_map(|(limit, lease)| {
        Model::in_flight(limit, Duration::from_micros(lease))
            .expect("limits and leases are within their bounds")
    })
}

/// One of ten is up to the highest limit per 30 days.
fn any_quotas() -> impl Strategy<Value = Quota> {
    let large = (large_limits(), select(&[SECOND, DAY, 30 * DAY][..])).prop_map(|(limit, period)| {
        Quota::new(limit, Duration::from_micros(period), None)
            .expect("limits and periods are within their bounds")
    });
    prop_oneof![9 => quotas(), 1 => large]
}

/// From 1 per 30 days to 10 million per second.
fn quotas() -> impl Strategy<Value = Quota> {
    (limits(), periods()).prop_map(|(limit, period)| quota(limit, period))
}

fn quota(limit: u64, period: u64) -> Quota {
    let fastest = period.saturating_mul(UNITS_PER_MICRO);
    let limit = limit.min(fastest);
    Quota::new(limit, Duration::from_micros(period), None)
        .expect("limits and periods are within their bounds")
}

fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![4 => select(&PERIODS[..]), 1 => 1_u64..10_000_000_000]
}

fn limits() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1_u64..=5,
        3 => 1_u64..=100,
        1 => select(&[1_u64, 3, 7, 1_000, 30_000, 10_000_000][..]),
        1 => 1_u64..=10_000_000,
    ]
}

fn large_limits() -> impl Strategy<Value = u64> {
    prop_oneof![1 => select(&[1 << 32, 1 << 49, Quota::MAX_UNITS][..]), 1 => 1..=Quota::MAX_UNITS]
}

/// An hour, the most that a policy may have.
const LONGEST_WAIT: u64 = 3_600 * SECOND;
const UNITS_PER_MICRO: u64 = 10;
const LONGEST_LOG: u64 = 2_000;
const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
const PERIODS: [u64; 11] =
    [1, 1_000, 10_000, 100_000, SECOND, 7 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, 7 * DAY, 30 * DAY];
