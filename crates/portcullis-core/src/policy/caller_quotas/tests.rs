mod in_flight;

use alloc::string::ToString as _;

use proptest::prelude::{prop_assert, proptest};

use super::*;
use crate::algorithm::{State, Tat};
use crate::{FailureMode, Retry, Timestamp};

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn quota(limit: u64) -> Quota {
    Quota::per_minute(limit)
}

#[test]
fn a_caller_has_the_state_and_the_algorithm_of_the_policy() {
    for policy in [
        Policy::token_bucket("plans", quota(60)),
        Policy::gcra("plans", quota(60)),
        Policy::leaky_bucket("plans", quota(60)),
        Policy::fixed_window("plans", quota(60)),
        Policy::sliding_window("plans", quota(60)),
        Policy::sliding_log("plans", quota(60)),
    ] {
        let plans = policy.clone().caller_quotas(quota(10), quota(6_000));
        let caller = plans.with_quota(quota(600)).unwrap();
        assert_eq!((caller.digest(), caller.strategy().tag()), (policy.digest(), policy.strategy().tag()));
        let expected = if policy.strategy().tag() == "gcra" { 1 } else { 600 };
        assert_eq!(caller.strategy().limit(), expected);
        assert_eq!(plans.with_quota(quota(60)).unwrap(), plans);
    }
}

#[test]
fn quotas_out_of_the_range_are_errors_that_name_it() {
    let plans = Policy::token_bucket("plans", quota(60)).caller_quotas(quota(10), quota(100).burst(200));
    let error = |quota| plans.with_quota(quota).unwrap_err().to_string();
    for (quota, why) in [
        (quota(9).burst(10), "from 10/min to 100/min burst 200"),
        (quota(101), "101/min"),
        (quota(100).burst(201), "burst 201"),
        (quota(100).burst(9), "burst 9"),
        (Quota::per_second(10), "1/min"),
    ] {
        let error = error(quota);
        assert!(error.starts_with("policy plans: a caller cannot have"), "{error}");
        assert!(error.contains(why) || error.contains("period must be 60s"), "{error}");
    }
    let error = Policy::gcra("plain", quota(1)).with_quota(quota(1)).unwrap_err().to_string();
    assert!(error.contains("plain") && error.contains("caller_quotas"), "{error}");
    let windows = Policy::fixed_window("windows", quota(60)).caller_quotas(quota(10), quota(100));
    assert!(windows.with_quota(quota(60).burst(60)).unwrap_err().to_string().contains("burst of 60"));
}

#[test]
fn ranges_that_cannot_be_are_errors() {
    let error =
        |policy: Policy, smallest, largest| policy.validate_range(smallest, largest).unwrap_err().to_string();
    let bucket = || Policy::token_bucket("plans", quota(60));
    assert!(error(bucket(), quota(100), quota(10)).contains("must not be more"));
    assert!(error(bucket(), quota(100), quota(200)).contains("widen"));
    assert!(error(bucket(), quota(10), quota(50)).contains("widen"));
    assert!(error(bucket(), quota(10).burst(61), quota(100).burst(70)).contains("widen"));
    assert!(error(bucket(), quota(10), Quota::per_second(10)).contains("10/s"));
    assert!(error(bucket(), Quota::per_hour(10), Quota::per_hour(100)).contains("period"));
    let window = Policy::fixed_window("plans", quota(60));
    assert!(error(window, quota(10), quota(100).burst(7)).contains("burst of 7"));
    let most = Quota::MAX_UNITS;
    assert!(error(bucket(), quota(1), quota(most)).contains("takes longer to refill"));
    let log = Policy::sliding_log("plans", quota(60)).allow_debt(150_000);
    assert!(error(log, quota(1), quota(60_000)).contains("150000 units"));
    // GCRA keeps a rate alone, so any period with this rate in the range is right.
    let spaced = Policy::gcra("plans", Quota::per_second(1));
    assert!(spaced.validate_range(quota(60), quota(60)).is_ok());
    assert!(error(spaced, quota(61), quota(70)).contains("widen"));
}

#[test]
fn a_level_of_another_quota_stays_and_denies() {
    let policies = [Policy::token_bucket("plans", quota(60)), Policy::leaky_bucket("plans", quota(60))];
    for policy in policies {
        let plans = policy.caller_quotas(quota(6), quota(600));
        let (slow, fast) =
            (plans.with_quota(quota(6).burst(600)).unwrap(), plans.with_quota(quota(600)).unwrap());
        let mut state = None;
        assert_eq!(slow.strategy().force_charge(&mut state, NOW, 1_300).charged, 1_200);
        // 12 000 s at a unit per 10 s; the other quota drains ten units per second, and holds a minute.
        let evaluation = fast.strategy().evaluate(state.as_ref(), NOW, 1);
        assert_eq!((evaluation.admitted, evaluation.repair), (false, false));
        let snapshot = fast.strategy().snapshot(state.as_ref(), NOW, 600, false);
        assert_eq!(snapshot.retry, Some(Retry::After(Duration::from_secs(12_000))));
        let forced = fast.strategy().force_charge(&mut state, NOW, 5);
        assert_eq!((forced.charged, forced.uncharged, forced.changed), (0, 5, false));
        let far = Some(State::Tat(Tat { micros: NOW.as_micros() + 12_300_000_000, remainder: 0 }));
        assert!(fast.strategy().evaluate(far.as_ref(), NOW, 1).repair);
        let reset = fast.strategy().snapshot(far.as_ref(), NOW, 1, false).reset_after;
        assert_eq!(reset, Duration::from_secs(60));
    }
}

#[test]
fn leases_and_waits_are_those_of_the_caller() {
    let bucket = Policy::token_bucket("plans", quota(60));
    let leased = bucket.clone().lease(50).caller_quotas(quota(5), quota(600));
    let lease = |limit| leased.with_quota(quota(limit)).unwrap().max_lease().map(u64::from);
    assert_eq!([5, 20, 600].map(lease), [None, Some(20), Some(50)]);

    let waits = bucket.wait_at_most(Duration::from_secs(9)).caller_quotas(quota(5), quota(600));
    let caller = waits.with_quota(quota(600)).unwrap();
    assert_eq!(caller.max_wait(), Some(Duration::from_secs(9)));
    let Strategy::TokenBucket(bucket) = caller.strategy() else { panic!("{caller:?}") };
    assert_eq!(bucket.meter().wait(), 9_000_000);
    assert!(waits.clone().set_wait(Duration::from_secs(1)).unwrap_err().to_string().contains("before"));
}

proptest! {
    #[test]
    fn no_quota_charges_above_the_ceiling(
        kind in 0_usize..3, limits in [1_u64..1_000, 1..1_000, 1..1_000], bursts in [1_u64..50, 1..50, 1..50],
        wait in 0_u64..20_000_000, debt in proptest::option::of(0_u64..5_000), instances in 1_u32..70,
        instant in 0_u64..1 << 40,
    ) {
        let ([mut limits, mut bursts], now) = ([limits, bursts], Timestamp::from_micros(instant));
        limits.sort_unstable();
        bursts.sort_unstable();
        let [smallest, own, largest] = [0, 1, 2].map(|at| quota(limits[at]).burst(bursts[at]));
        let policy = [Policy::token_bucket, Policy::gcra, Policy::leaky_bucket][kind]("plans", own);
        let policy = if wait > 0 { policy.wait_at_most(Duration::from_micros(wait)) } else { policy };
        let policy = debt.map_or(policy.clone(), |units| policy.allow_debt(units));
        let policy = policy.on_store_failure(FailureMode::local(instances)).caller_quotas(smallest, largest);
        let quotas = [smallest, own, largest, quota(limits[0]).burst(bursts[2]), quota(limits[2]).burst(bursts[0])];
        let callers = quotas.map(|quota| policy.with_quota(quota).unwrap());
        let shares = callers.clone().map(|caller| caller.share().unwrap());
        for callers in [callers, shares] {
            let ceilings = callers.clone().map(|caller| caller.strategy().meter().unwrap().ceiling());
            prop_assert!(ceilings.iter().all(|ceiling| *ceiling == ceilings[0]), "{ceilings:?}");
            for left in &callers {
                let mut state = None;
                let _ = left.strategy().force_charge(&mut state, now, u64::MAX);
                for right in &callers {
                    prop_assert!(!right.strategy().evaluate(state.as_ref(), now, 1).repair);
                    let mut after = state.clone();
                    let _ = right.strategy().force_charge(&mut after, now, u64::MAX);
                    prop_assert!(!left.strategy().evaluate(after.as_ref(), now, 1).repair);
                }
            }
        }
    }
}

#[test]
fn policy_of_a_caller_tells_its_quota() {
    let plans = Policy::token_bucket("plans", quota(60)).caller_quotas(quota(6), quota(6_000));
    let caller = plans.with_quota(quota(600)).unwrap();
    assert_eq!((caller.caller_quota(), caller.is_individual()), (Some(quota(600)), true));
    assert_eq!(caller.with_quota(quota(90)), plans.with_quota(quota(90)));
    for own in [plans.with_quota(quota(60)).unwrap(), plans] {
        assert_eq!((own.caller_quota(), own.is_individual()), (None, false));
    }
}

#[test]
fn a_grant_beyond_the_declared_quotas_is_not_cut() {
    let plans = [Policy::token_bucket("p", quota(60)), Policy::leaky_bucket("p", quota(60))];
    for policy in plans.map(|policy| policy.on_store_failure(FailureMode::local(2)).allow_overrides()) {
        let granted = policy.caller_quotas(quota(60), quota(120)).granted(quota(6).burst(600)).unwrap();
        for (policy, full) in [(granted.share().unwrap(), 300), (granted, 600)] {
            let (strategy, mut state) = (policy.strategy(), None);
            let meter = strategy.meter().unwrap();
            assert!(meter.ceiling() >= Some(meter.deepest_micros()), "{meter:?}");
            for used in 1..=full {
                assert!(strategy.evaluate(state.as_ref(), NOW, 1).admitted, "{used}");
                strategy.charge(&mut state, NOW, 1);
            }
            let evaluation = strategy.evaluate(state.as_ref(), NOW, 1);
            assert_eq!((evaluation.admitted, evaluation.repair), (false, false));
        }
    }
}

#[test]
fn a_grant_has_at_most_the_debt_that_its_quota_permits() {
    let fast =
        Policy::token_bucket("p", Quota::per_hour(Quota::MAX_UNITS).burst(9)).allow_debt(Quota::MAX_UNITS);
    let slow = fast.allow_overrides().granted(Quota::per_hour(1)).unwrap();
    assert_eq!(slow.max_debt(), Some((1 << 51) / 3_600_000_000));
    let log = Policy::sliding_log("p", Quota::per_hour(10)).allow_debt(199_990).allow_overrides();
    assert_eq!(log.granted(Quota::per_hour(100_000)).unwrap().max_debt(), Some(100_000));
    assert_eq!(log.granted(Quota::per_hour(5)).unwrap().max_debt(), Some(199_990));
}
