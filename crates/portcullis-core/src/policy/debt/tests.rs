use alloc::string::ToString as _;
use core::time::Duration;

use super::*;
use crate::algorithm::{State, Tat};
use crate::{FailureMode, InFlight, PolicySettings, Quota, Timestamp};

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const SECOND: u64 = 1_000_000;

fn policies(limit: u64) -> [Policy; 6] {
    let quota = Quota::per_hour(limit);
    [
        Policy::token_bucket("debts", quota),
        Policy::gcra("debts", quota.burst(limit)),
        Policy::leaky_bucket("debts", quota),
        Policy::fixed_window("debts", quota),
        Policy::sliding_window("debts", quota),
        Policy::sliding_log("debts", quota),
    ]
}

#[test]
fn a_settlement_leaves_the_debt_that_is_allowed() {
    for policy in policies(10) {
        for (allowed, debt) in [(None, 10), (Some(0), 0), (Some(3), 3), (Some(10), 10), (Some(500), 500)] {
            let policy = allowed.map_or(policy.clone(), |units| policy.clone().allow_debt(units));
            assert_eq!(policy.max_debt(), allowed);
            let (strategy, mut state) = (policy.strategy(), None);
            let first = strategy.force_charge(&mut state, NOW, 4);
            let second = strategy.force_charge(&mut state, NOW, 1_000);
            assert_eq!((first.charged, second.charged, second.uncharged), (4, 6 + debt, 994 - debt));
            let third = strategy.force_charge(&mut state, NOW, 1);
            assert_eq!((third.charged, third.uncharged, third.changed), (0, 1, false));
            let evaluation = strategy.evaluate(state.as_ref(), NOW, 1);
            assert!(!evaluation.admitted && !evaluation.repair, "{}", strategy.tag());
        }
    }
}

#[test]
fn policy_without_debt_charges_what_fits() {
    for policy in policies(10) {
        let shared = policy.clone().allow_debt(8).on_store_failure(FailureMode::local(2));
        let [whole, share] = [&shared, &shared.without_debt()].map(|policy| policy.share().unwrap());
        for (policy, bounded, limit) in [(&policy, policy.without_debt(), 10), (&whole, share, 5)] {
            let (mut state, bounded) = (None, bounded.strategy());
            let charged = [3, 9, 1].map(|units| bounded.force_charge(&mut state, NOW, units).charged);
            assert_eq!(charged, [3, limit - 3, 0], "{}", bounded.tag());
            // What the policy has left as a debt stays.
            let _ = policy.strategy().force_charge(&mut state, NOW, 3);
            let before = policy.strategy().snapshot(state.as_ref(), NOW, 0, true).reset_after;
            let more = bounded.force_charge(&mut state, NOW, 1);
            assert_eq!((more.charged, more.changed), (0, false), "{}", bounded.tag());
            assert!(!bounded.evaluate(state.as_ref(), NOW, 1).repair, "{}", bounded.tag());
            assert_eq!(policy.strategy().snapshot(state.as_ref(), NOW, 0, true).reset_after, before);
        }
    }
}

#[test]
fn a_level_beyond_the_debt_is_cut_and_one_within_stays() {
    let hundred = Policy::gcra("a", Quota::per_second(1).burst(10)).allow_debt(100);
    let state = |seconds| Some(State::Tat(Tat { micros: NOW.as_micros() + seconds * SECOND, remainder: 0 }));
    for (policy, seconds, cut) in [
        (hundred.clone(), 110, false),
        (hundred.clone(), 111, true),
        (hundred.clone().wait_at_most(Duration::from_secs(5)), 115, false),
        (hundred.wait_at_most(Duration::from_secs(5)), 116, true),
        (Policy::gcra("a", Quota::per_second(1).burst(10)).allow_debt(0), 11, true),
    ] {
        let strategy = policy.strategy();
        assert_eq!(strategy.evaluate(state(seconds).as_ref(), NOW, 1).repair, cut, "{seconds}");
        let reset = strategy.snapshot(state(seconds).as_ref(), NOW, 1, false).reset_after.as_secs();
        let full = 10 + policy.max_wait().map_or(0, |wait| wait.as_secs());
        assert_eq!(reset, if cut { full } else { seconds });
    }
}

#[test]
fn a_debt_of_one_burst_is_the_default_and_shared() {
    for policy in policies(10) {
        let same = policy.clone().allow_debt(10);
        let instances = FailureMode::local(4);
        for (policy, debt) in [(policy, 2), (same.clone(), 2), (same.allow_debt(41), 10)] {
            let share = policy.on_store_failure(instances).share().unwrap();
            let forced = share.strategy().force_charge(&mut None, NOW, 100);
            assert_eq!(forced.charged, 2 + debt, "{}", share.strategy().tag());
        }
    }
}

#[test]
fn debts_beyond_a_bound_name_it() {
    let most = Quota::MAX_UNITS;
    let bounds = [most, most, most, most, 8_589_934_580, 199_990];
    for (policy, bound) in policies(10).into_iter().zip(bounds) {
        let bound = bound.min(policy.strategy().max_debt());
        assert!(policy.clone().set_debt(bound).is_ok());
        let settings = PolicySettings { max_debt: Some(bound + 1), ..PolicySettings::default() };
        let error = Policy::try_new("debts", Ok(*policy.strategy()), settings).unwrap_err().to_string();
        assert!(error.starts_with("policy debts: a debt of"), "{error}");
        assert!(error.ends_with(&bound.to_string()), "{error}");
    }
    let years = Policy::gcra("a", Quota::per_hour(1));
    assert_eq!(years.strategy().max_debt(), (1 << 51) / (3_600 * SECOND));
    let mut declared =
        Policy::gcra("a", Quota::per_hour(1)).caller_quotas(Quota::per_hour(1), Quota::per_hour(2));
    assert!(declared.set_debt(1).unwrap_err().to_string().contains("before"));
}

#[test]
fn requests_in_flight_have_no_debt() {
    let exports = crate::Concurrency::new("exports", 4).policy();
    assert!(exports.clone().set_debt(0).is_ok());
    let settings = PolicySettings { max_debt: Some(1), ..PolicySettings::default() };
    let error = Policy::try_new("exports", InFlight::new(4), settings).unwrap_err().to_string();
    assert_eq!(
        error,
        "policy exports: a limit on requests in flight has no debt: a permit is held or it is not"
    );
}

#[test]
#[should_panic(expected = "a limit on requests in flight has no debt")]
fn a_debt_of_requests_in_flight_panics_with_the_reason() {
    let _ = crate::Concurrency::new("exports", 4).policy().allow_debt(10);
}
