//! What several instances admit together when each enforces a share of a limit.

use std::time::Duration;

use portcullis_core::{Anchor, FailureMode, Policy, Quota, Refill, Retry, Timestamp};
use portcullis_testing::oracle::{Admission, Model};
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// What independent instances admit. Each ask is an instance, a cost, the time since the previous ask in millionths of a
/// period, and whether a denied client waits as announced and asks again.
fn admitted(model: &Model, instances: u32, period: u64, asks: &[(u32, u64, u64, bool)]) -> Vec<Admission> {
    let policy = Policy::literal("shared", model.strategy().unwrap());
    let share = policy.on_store_failure(FailureMode::local(instances)).share().unwrap();
    let mut states = vec![None; usize::try_from(instances).unwrap()];
    let mut admissions = Vec::new();
    let mut now = START;
    for (instance, cost, millionths, patient) in asks {
        now = now.saturating_add(Duration::from_micros(period * millionths / 1_000_000));
        let state = &mut states[usize::try_from(instance % instances).unwrap()];
        let mut ask = |now| {
            let transition = share.strategy().decide(state.as_ref(), now, *cost);
            let report =
                share.strategy().snapshot(transition.after.as_ref(), now, *cost, transition.admitted);
            if transition.admitted {
                *state = transition.after;
                admissions.push(Admission { at: now, cost: *cost });
            }
            report.retry
        };
        if let Some(Retry::After(wait)) = ask(now)
            && *patient
        {
            now = now.saturating_add(wait);
            assert_eq!(ask(now), None);
        }
    }
    admissions
}

fn per(limit: u64, micros: u64) -> Quota {
    Quota::new(limit, Duration::from_micros(micros), None).unwrap()
}

/// The most units from any instant to just before one period later.
fn most_in_a_period(admissions: &[Admission], period: u64) -> u64 {
    let from = |first: &Admission| {
        let end = first.at.saturating_add(Duration::from_micros(period));
        let of = |next: &&Admission| next.at >= first.at && next.at < end;
        admissions.iter().filter(of).map(|next| next.cost).sum()
    };
    admissions.iter().map(from).max().unwrap_or(0)
}

fn asks() -> impl Strategy<Value = Vec<(u32, u64, u64, bool)>> {
    prop::collection::vec((any::<u32>(), 1_u64..8, 0_u64..100_000, any::<bool>()), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Burst and limit are at least the number of instances.
    #[test]
    fn shares_together_keep_the_promise(
        instances in 1_u32..9,
        (limit, burst) in (0_u64..40, 0_u64..40),
        period in 1_u64..100_000,
        asks in asks(),
    ) {
        let period = period * 60;
        let count = u64::from(instances);
        let quota = per(limit + count, period);
        let burst = quota.burst(burst + count);
        for model in [
            Model::gcra(burst),
            Model::leaky_bucket(burst),
            Model::token_bucket(burst, Refill::Greedy),
            Model::token_bucket(burst, Refill::Interval),
            Model::fixed_window(quota, Anchor::Epoch),
            Model::fixed_window(quota, Anchor::Instant(Timestamp::from_micros(123_456_789))),
            Model::sliding_window(quota, 1),
            Model::sliding_window(quota, 6),
            Model::sliding_log(quota),
        ] {
            let admissions = admitted(&model, instances, period, &asks);
            prop_assert!(!admissions.is_empty() || asks.iter().all(|(_, cost, ..)| *cost > 1));
            prop_assert!(model.promise(&admissions).is_ok(), "{model:?}: {:?}", model.promise(&admissions));
        }
        // Each instance has its own windows here, so only the sum over a period is bounded.
        let model = Model::fixed_window(quota, Anchor::FirstRequest);
        let admissions = admitted(&model, instances, period, &asks);
        prop_assert!(most_in_a_period(&admissions, period) <= 2 * quota.limit());
    }

    /// With fewer units than instances, each instance has one unit, and together they keep the rate of the policy.
    #[test]
    fn shares_below_one_unit_keep_the_rate(
        instances in 2_u32..9,
        (limit, burst) in (any::<u64>(), any::<u64>()),
        period in 1_u64..100_000,
        asks in asks(),
    ) {
        let period = period * 60;
        let count = u64::from(instances);
        let (limit, burst) = (1 + limit % (count - 1), 1 + burst % (count - 1));
        let quota = per(limit, period);
        let asks = asks.into_iter().map(|(instance, _, wait, patient)| (instance, 1, wait * 10, patient));
        let asks: Vec<_> = asks.collect();
        for model in [Model::gcra, Model::leaky_bucket] {
            let admissions = admitted(&model(quota.burst(burst)), instances, period, &asks);
            prop_assert!(model(quota.burst(count)).promise(&admissions).is_ok());
        }
        let periods = count.div_ceil(limit);
        let whole = per(count, period * periods);
        prop_assert!(count <= limit * periods);
        for (model, together) in [
            (Model::fixed_window(quota, Anchor::Epoch), Model::fixed_window(whole, Anchor::Epoch)),
            (Model::sliding_window(quota, 6), Model::sliding_window(whole, 6)),
            (Model::sliding_log(quota), Model::sliding_log(whole)),
        ] {
            let admissions = admitted(&model, instances, period, &asks);
            prop_assert!(!admissions.is_empty());
            prop_assert!(together.promise(&admissions).is_ok(), "{:?}", together.promise(&admissions));
        }
    }
}

/// The bound is tight: a divisible limit is available in full.
#[test]
fn shares_of_a_divisible_limit_reach_the_promise() {
    let quota = per(12, 1_000_000);
    let greedy: Vec<_> = (0..400).map(|turn| (turn, 1, 5_000, false)).collect();
    for model in [
        Model::gcra(quota.burst(8)),
        Model::token_bucket(quota.burst(8), Refill::Interval),
        Model::fixed_window(quota, Anchor::Epoch),
        Model::sliding_log(quota),
    ] {
        let peaks = model.promise(&admitted(&model, 4, 1_000_000, &greedy)).unwrap();
        assert!(peaks.ahead >= if model.strategy().unwrap().limit() == 8 { 7 } else { 12 }, "{peaks:?}");
    }
}
