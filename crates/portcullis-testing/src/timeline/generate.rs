//! Generates timelines. The strategies also define how they shrink.

use portcullis_core::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::drive::{EARLIEST_START, LATEST_START, RECEIPTS_HELD};
use super::models::models;
use super::{AlgorithmKind, Amount, Operation, Profile, Step, Timeline, Timing};

pub(super) fn timelines(profile: Profile) -> impl Strategy<Value = Timeline> {
    let start = (EARLIEST_START..LATEST_START).prop_map(Timestamp::from_micros);
    (vec(models(profile), 1..=3), start, vec(steps(profile), 0..=profile.steps))
        .prop_map(|(models, start, steps)| Timeline { models, start, steps })
}

fn steps(profile: Profile) -> impl Strategy<Value = Step> {
    (timings(profile), operations(profile)).prop_map(|(timing, operation)| Step { timing, operation })
}

fn timings(profile: Profile) -> BoxedStrategy<Timing> {
    let clock_steps = u32::from(profile.clock_steps);
    let which = prop_oneof![4 => Just(0_usize), 2 => Just(1_usize), 2 => 0_usize..24];
    let announced = (which, -1_i64..=1).prop_map(|(which, after)| Timing::Announced { which, after });
    let two_hours = 2 * 3_600_000_000_i64;
    prop_oneof![
        60 => Just(Timing::AtOnce),
        60 => announced,
        5 => (0_u64..2_500).prop_map(Timing::Later),
        1 => (0_u64..100_000).prop_map(Timing::Later),
        2 * clock_steps => (-two_hours..two_hours).prop_map(Timing::Step),
        4 * clock_steps => (-12_i64..12, -1_i64..=1).prop_map(|(by, after)| Timing::StepByQuarters(by, after)),
    ]
    .boxed()
}

fn operations(profile: Profile) -> BoxedStrategy<Operation> {
    let checks = (0_usize..3, option::weighted(0.7, 0_usize..3), amounts(), amounts(), amounts())
        .prop_map(|(key, only, a, b, c)| Operation::Check { key, only, amounts: [a, b, c] });
    let refunds =
        (receipts(), any::<bool>(), any::<bool>()).prop_map(|(which, with_current_quota, if_newest)| {
            Operation::Refund { which, with_current_quota, if_newest }
        });
    let amounts_of_settlements = prop_oneof![3 => amounts(), 1 => (1_u64..8).prop_map(Amount::Times)];
    let settlements = (receipts(), amounts_of_settlements, any::<bool>())
        .prop_map(|(which, to, with_current_quota)| Operation::Settle { which, to, with_current_quota });
    let most = prop_oneof![3 => 1_usize..5, 1 => Just(usize::MAX)];
    let joins = (receipts(), most).prop_map(|(which, most)| Operation::Join { which, most });
    prop_oneof![
        180 => checks,
        9 => refunds,
        9 => settlements,
        8 => joins,
        // Other policies have no permits.
        renewals(profile) =>
            receipts().prop_map(|which| Operation::Renew { which }),
        1 => (1_usize..20).prop_map(|most| Operation::RefundOldest { most }),
        2 => (0_usize..3, 0_usize..3).prop_map(|(key, policy)| Operation::Reset { key, policy }),
        4 * u32::from(profile.quota_changes) =>
            (0_usize..3, models(profile)).prop_map(|(policy, to)| Operation::SetQuota { policy, to }),
    ]
    .boxed()
}

/// The weight of renewals: fewer where few of the receipts have permits.
fn renewals(profile: Profile) -> u32 {
    match profile.algorithm {
        Some(AlgorithmKind::InFlight) => 20,
        None => 5,
        Some(_) => 0,
    }
}

/// The index of a receipt, counted from the newest; most are small.
fn receipts() -> BoxedStrategy<usize> {
    prop_oneof![3 => 0_usize..8, 1 => 0_usize..RECEIPTS_HELD].boxed()
}

/// Boxed, as are the strategies that contain it: unboxed value trees are kilobytes large, and shrinking copies them.
fn amounts() -> BoxedStrategy<Amount> {
    prop_oneof![
        3 => Just(Amount::Peek),
        6 => Just(Amount::Units(1)),
        3 => (1_u64..=5).prop_map(Amount::Units),
        11 => (1_u64..=16).prop_map(Amount::Sixteenths),
        2 => prop_oneof![Just(1_u64), 1_u64..1_000, Just(portcullis_core::Quota::MAX_UNITS)].prop_map(Amount::TooMuch),
    ]
    .boxed()
}
