//! How timelines are made, and made shorter.

use std::time::Duration;

use portcullis_core::{Anchor, Quota, Strategy as Limiting, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{AlgorithmKind, Amount, Profile, Step, Timeline, What, When};
use crate::oracle::Model;

pub(super) fn timelines(profile: Profile) -> impl Strategy<Value = Timeline> {
    let start = (EARLIEST..LATEST).prop_map(Timestamp::from_micros);
    (vec(models(profile), 1..=3), start, vec(steps(profile), 0..=profile.steps))
        .prop_map(|(models, start, steps)| Timeline { models, start, steps })
}

fn models(profile: Profile) -> BoxedStrategy<Model> {
    match profile.algorithm {
        Some(AlgorithmKind::Gcra) => gcras().boxed(),
        Some(AlgorithmKind::FixedWindow) => fixed_windows().boxed(),
        None => prop_oneof![gcras(), fixed_windows()].boxed(),
    }
}

fn gcras() -> impl Strategy<Value = Model> {
    let bursts = prop_oneof![1 => Just(None), 3 => (2_u32..=10).prop_map(Some), 2 => limits().prop_map(Some)];
    (quotas(), bursts).prop_map(|(quota, burst)| {
        let with_burst = burst.and_then(|burst| quota.try_burst(burst).ok());
        let model = Model::gcra(with_burst.unwrap_or(quota));
        let fills_soon = match model.strategy() {
            Ok(Limiting::Gcra(gcra)) => gcra.meter().capacity().micros < SLOWEST_TO_FILL,
            _ => false,
        };
        if fills_soon { model } else { Model::gcra(quota) }
    })
}

fn fixed_windows() -> impl Strategy<Value = Model> {
    let anchors = prop_oneof![
        Just(Anchor::Epoch),
        Just(Anchor::FirstRequest),
        (0..LATEST).prop_map(|micros| Anchor::Instant(Timestamp::from_micros(micros))),
    ];
    (quotas(), anchors).prop_map(|(quota, anchor)| Model::fixed_window(quota, anchor))
}

/// From 1 per 30 days to 10 million per second.
fn quotas() -> impl Strategy<Value = Quota> {
    let periods = prop_oneof![
        4 => proptest::sample::select(&PERIODS[..]),
        1 => 1_u64..10_000_000_000,
    ];
    (limits(), periods).prop_map(|(limit, period)| {
        let fastest = period.saturating_mul(UNITS_PER_MICRO);
        let limit = limit.min(u32::try_from(fastest).unwrap_or(u32::MAX));
        Quota::new(limit, Duration::from_micros(period)).expect("neither is zero or too long")
    })
}

fn limits() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 1_u32..=5,
        3 => 1_u32..=100,
        1 => proptest::sample::select(&[1_u32, 3, 7, 1_000, 30_000, 10_000_000][..]),
        1 => 1_u32..=10_000_000,
    ]
}

fn steps(profile: Profile) -> impl Strategy<Value = Step> {
    (whens(profile), whats(profile)).prop_map(|(when, what)| Step { when, what })
}

fn whens(profile: Profile) -> BoxedStrategy<When> {
    let clock_steps = u32::from(profile.clock_steps);
    let which = prop_oneof![4 => Just(0_usize), 2 => Just(1_usize), 2 => 0_usize..24];
    let announced = (which, -1_i64..=1).prop_map(|(which, after)| When::Announced { which, after });
    let two_hours = 2 * 3_600_000_000_i64;
    prop_oneof![
        60 => Just(When::AtOnce),
        60 => announced,
        5 => (0_u64..2_500).prop_map(When::Later),
        1 => (0_u64..100_000).prop_map(When::Later),
        2 * clock_steps => (-two_hours..two_hours).prop_map(When::Step),
        4 * clock_steps => (-12_i64..12, -1_i64..=1).prop_map(|(by, after)| When::StepByQuarters(by, after)),
    ]
    .boxed()
}

fn whats(profile: Profile) -> BoxedStrategy<What> {
    let checks = (0_usize..3, option::weighted(0.7, 0_usize..3), amounts(), amounts(), amounts())
        .prop_map(|(key, only, a, b, c)| What::Check { key, only, amounts: [a, b, c] });
    let refunds = (0_usize..8, any::<bool>())
        .prop_map(|(which, under_the_present_quota)| What::Refund { which, under_the_present_quota });
    let settlements = (0_usize..8, amounts(), any::<bool>())
        .prop_map(|(which, to, under_the_present_quota)| What::Settle { which, to, under_the_present_quota });
    prop_oneof![
        90 => checks,
        4 => refunds,
        4 => settlements,
        1 => (0_usize..3, 0_usize..3).prop_map(|(key, policy)| What::Reset { key, policy }),
        2 * u32::from(profile.quota_changes) =>
            (0_usize..3, models(profile)).prop_map(|(policy, to)| What::SetQuota { policy, to }),
    ]
    .boxed()
}

/// Boxed, like what it is part of: the trees that are made shorter would be copied about by the kilobyte.
fn amounts() -> BoxedStrategy<Amount> {
    prop_oneof![
        3 => Just(Amount::Peek),
        6 => Just(Amount::Units(1)),
        3 => (1_u32..=5).prop_map(Amount::Units),
        11 => (1_u32..=16).prop_map(Amount::Sixteenths),
        2 => prop_oneof![Just(1_u32), 1_u32..1_000, Just(u32::MAX)].prop_map(Amount::TooMuch),
    ]
    .boxed()
}

/// 1970, and long enough before [`super::drive::HORIZON`] for a run.
const EARLIEST: u64 = 0;
const LATEST: u64 = 1 << 51;
/// About two years.
const SLOWEST_TO_FILL: u64 = 1 << 46;
const UNITS_PER_MICRO: u64 = 10;
const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
const PERIODS: [u64; 11] =
    [1, 1_000, 10_000, 100_000, SECOND, 7 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, 7 * DAY, 30 * DAY];
