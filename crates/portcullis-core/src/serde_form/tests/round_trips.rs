//! What is written is read back equal.

use core::time::Duration;

use proptest::prelude::{Just, any, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Strategy as Generate, Union};

use crate::{
    Anchor, Concurrency, FailureMode, FixedWindow, Gcra, InFlight, LeakyBucket, Policy, PolicyName,
    PolicySettings, Quota, Refill, SlidingLog, SlidingWindow, Strategy, Timestamp, TokenBucket,
};

fn quotas() -> impl Generate<Value = Quota> {
    let limits = prop_oneof![1_u64..100, 1_u64..100_000, 1..=Quota::MAX_UNITS];
    let unit = Union::new([1_u64, 1_000, 1_000_000, 60_000_000, 86_400_000_000].map(Just));
    let periods = prop_oneof![
        (1_u64..100, unit).prop_map(|(count, unit)| count * unit),
        1_u64..1 << 51,
        Just(1_u64 << 51),
    ];
    (limits, periods)
        .prop_map(|(limit, micros)| Quota::new(limit, Duration::from_micros(micros), None).unwrap())
}

fn meters() -> impl Generate<Value = Quota> {
    let bursts = prop_oneof![1_u64..100, 1_u64..100_000, 1..=Quota::MAX_UNITS];
    (quotas(), proptest::option::of(bursts))
        .prop_map(|(quota, burst)| burst.map_or(quota, |burst| quota.burst(burst)))
}

fn anchors() -> impl Generate<Value = Anchor> {
    prop_oneof![
        Just(Anchor::Epoch),
        Just(Anchor::FirstRequest),
        (0..=Timestamp::MAX.as_micros()).prop_map(|micros| Anchor::Instant(Timestamp::from_micros(micros))),
    ]
}

fn strategies() -> impl Generate<Value = Strategy> {
    let refills = prop_oneof![Just(Refill::Greedy), Just(Refill::Interval)];
    let slots = prop_oneof![Just(1_u32), Just(2), Just(10), 1_u32..=1_000];
    prop_oneof![
        (meters(), refills).prop_filter_map("bounds of the token bucket", |(quota, refill)| {
            Some(Strategy::TokenBucket(TokenBucket::new(quota).ok()?.refilled(refill)))
        }),
        meters().prop_filter_map("bounds of GCRA", |quota| Some(Strategy::Gcra(Gcra::new(quota).ok()?))),
        meters().prop_filter_map("bounds of the leaky bucket", |quota| {
            Some(Strategy::LeakyBucket(LeakyBucket::new(quota).ok()?))
        }),
        (quotas(), anchors()).prop_map(|(quota, anchor)| {
            Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor))
        }),
        (quotas(), slots).prop_filter_map("bounds of the sliding window", |(quota, slots)| {
            Some(Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).ok()?))
        }),
        quotas().prop_filter_map("bounds of the sliding log", |quota| {
            Some(Strategy::SlidingLog(SlidingLog::new(quota).ok()?))
        }),
        (1..=InFlight::MAX_LIMIT, 1_000_000_u64..=3_600_000_000).prop_map(|(limit, lease)| {
            let limit = InFlight::new(limit).unwrap();
            Strategy::InFlight(limit.with_lease(Duration::from_micros(lease)).unwrap())
        }),
    ]
}

fn failure_modes() -> impl Generate<Value = FailureMode> {
    prop_oneof![
        Just(FailureMode::Open),
        Just(FailureMode::Closed),
        (1..=u64::MAX).prop_map(|micros| FailureMode::OpenFor(Duration::from_micros(micros))),
        prop_oneof![1_u32..10, 1..=u32::MAX].prop_map(FailureMode::local),
    ]
}

/// The policy with other settings, if it can have them.
fn changed(policy: Policy, change: impl FnOnce(&mut PolicySettings)) -> Policy {
    let mut settings = policy.settings();
    change(&mut settings);
    Policy::try_new(policy.name().as_str(), Ok(*policy.strategy()), settings).unwrap_or(policy)
}

proptest! {
    #[test]
    fn strategies_round_trip(strategy in strategies()) {
        let text = serde_json::to_string(&strategy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Strategy>(&text).unwrap(), strategy, "{}", text);
    }

    #[test]
    fn policies_round_trip(
        name in "[ -~]{1,64}", strategy in strategies(), mode in failure_modes(), units in 0_u64..100,
        wait in prop_oneof![Just(0_u64), 1_u64..10_000, (1_u64..3_600).prop_map(|seconds| seconds * 1_000_000)],
        debt in proptest::option::of(0_u64..1_000_000), times in 0_u64..3,
    ) {
        let policy = Policy::new(PolicyName::new(&name).unwrap(), strategy);
        let policy = changed(policy, |settings| settings.failure_mode = mode);
        let policy = changed(policy, |settings| settings.max_lease = Some(units));
        // Those with a lease, for example, have none.
        let policy = changed(policy, |settings| settings.max_wait = Some(Duration::from_micros(wait)));
        let policy = changed(policy, |settings| settings.max_debt = debt);
        let callers = policy.strategy().quota().filter(|_| times > 0).and_then(|quota| {
            let limit = quota.limit().saturating_mul(times);
            let largest = Quota::new(limit, quota.period(), quota.explicit_burst()).ok()?;
            Some((quota, largest))
        });
        let policy = changed(policy, |settings| settings.caller_quotas = callers);
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy, "{}", text);
    }

    #[test]
    fn failure_modes_round_trip(mode in failure_modes()) {
        let text = serde_json::to_string(&mode).unwrap();
        prop_assert_eq!(serde_json::from_str::<FailureMode>(&text).unwrap(), mode);
    }

    /// A share is written exactly or not at all.
    #[test]
    fn written_shares_round_trip(strategy in strategies(), instances in 1_u32..20) {
        let policy = Policy::new(PolicyName::literal("a"), strategy);
        let share = changed(policy, |settings| settings.failure_mode = FailureMode::local(instances)).share();
        if let Some(share) = share
            && let Ok(text) = serde_json::to_string(share.strategy())
        {
            prop_assert_eq!(serde_json::from_str::<Strategy>(&text).unwrap(), *share.strategy(), "{}", text);
        }
    }

    #[test]
    fn reading_any_fields_never_panics(limit in any::<u64>(), period in ".{0,8}", slots in any::<u64>(), anchor in any::<i64>()) {
        let fields = serde_json::json!({ "strategy": "fixed_window", "limit": limit, "period": period, "anchor": anchor });
        let _ = serde_json::from_value::<Strategy>(fields);
        let fields = serde_json::json!({ "strategy": "sliding_window", "limit": limit, "period": "1s", "slots": slots });
        let _ = serde_json::from_value::<Strategy>(fields);
    }
}

#[test]
fn zero_and_unlimited_are_read_back() {
    let exports = |limit| Policy::from(Concurrency::new("a", limit));
    for (text, policy) in [
        (r#"{"name":"a","strategy":"gcra","quota":"0/d"}"#, Policy::gcra("a", Quota::per_day(0))),
        (r#"{"name":"a","strategy":"gcra","quota":"unlimited"}"#, Policy::gcra("a", Quota::UNLIMITED)),
        (r#"{"name":"a","strategy":"in_flight","limit":0}"#, exports(0)),
        (r#"{"name":"a","strategy":"in_flight","limit":"unlimited"}"#, exports(Quota::UNLIMITED.limit())),
    ] {
        assert_eq!(serde_json::from_str::<Policy>(text).unwrap(), policy);
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    }
    let parts = r#"{"name":"a","strategy":"gcra","limit":"unlimited","period":"1d"}"#;
    assert_eq!(serde_json::from_str::<Policy>(parts).unwrap(), Policy::gcra("a", Quota::UNLIMITED));
}
