use alloc::string::ToString as _;
use core::time::Duration;

use super::*;
use crate::overrides::{Effect, Override};
use crate::store::protocol::{self, LoadedState};
use crate::store::{Checks, Outcome};
use crate::{CallerQuotasError, Concurrency, Retry, Secret, Timestamp};

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// A policy of each algorithm whose quota is one of those of callers.
fn policies(quota: Quota) -> [Policy; 7] {
    let exports = if quota.is_unlimited() { quota.limit() } else { quota.limit().min(50) };
    [
        Policy::token_bucket("plans", quota),
        Policy::gcra("plans", quota),
        Policy::leaky_bucket("plans", quota),
        Policy::fixed_window("plans", quota),
        Policy::sliding_window("plans", quota),
        Policy::sliding_log("plans", quota),
        Concurrency::new("plans", exports).policy(),
    ]
}

fn check(policy: &Policy, cost: u64, state: &mut LoadedState) -> Outcome {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    let checks = Checks::one(policy.clone(), hasher.finish().unwrap(), cost);
    protocol::check(checks, NOW, core::slice::from_mut(state))
}

fn assert_closed(policy: &Policy, state: &mut LoadedState) {
    let before = state.state().cloned();
    let outcome = check(policy, 1, state);
    let decision = outcome.decision();
    assert_eq!(decision.retry(), Some(Retry::Never), "{policy:?}");
    assert_eq!((decision.limit(), decision.remaining()), (0, 0));
    assert!(decision.reset_after().is_zero() && decision.next_after().is_zero());
    assert_eq!(state.state(), before.as_ref());
    assert!(check(policy, 0, state).is_allowed());
}

fn assert_unlimited(policy: &Policy, state: &mut LoadedState) {
    let before = state.state().cloned();
    let outcome = check(policy, 1_000_000, state);
    let decision = outcome.decision();
    assert!(decision.is_allowed() && decision.is_unlimited() && !decision.is_metered());
    assert!(policy.is_unlimited() && !decision.is_degraded() && decision.delay().is_zero());
    assert_eq!(state.state(), before.as_ref());
    assert_eq!(outcome.into_receipts().count(), 0);
}

#[test]
fn zero_admits_nothing_for_no_time() {
    for policy in policies(Quota::per_minute(0)) {
        assert_closed(&policy, &mut LoadedState::new(None));
    }
}

#[test]
fn unlimited_keeps_no_state() {
    for policy in policies(Quota::UNLIMITED) {
        assert_unlimited(&policy, &mut LoadedState::new(None));
    }
}

#[test]
fn callers_of_zero_and_unlimited_keep_their_state() {
    for plans in policies(Quota::per_minute(60)) {
        let plans = plans.caller_quotas(Quota::per_minute(10), Quota::per_minute(100));
        let mut state = LoadedState::new(None);
        assert!(check(&plans, 1, &mut state).is_allowed());
        let used = state.state().cloned();
        assert!(used.is_some());
        // Any period fits.
        for zero in [Quota::per_minute(0), Quota::per_day(0)] {
            let closed = plans.with_quota(zero).unwrap();
            assert_eq!((closed.digest(), closed.caller_quota()), (plans.digest(), Some(zero)));
            assert_closed(&closed, &mut state);
        }
        let unlimited = plans.with_quota(Quota::UNLIMITED).unwrap();
        assert_eq!(unlimited.digest(), plans.digest());
        assert_unlimited(&unlimited, &mut state);
        assert_eq!(state.state(), used.as_ref());
    }
}

#[test]
fn grants_of_zero_and_unlimited_apply() {
    for policy in policies(Quota::per_minute(60)) {
        let policy = policy.allow_overrides();
        let mut state = LoadedState::new(None);
        assert!(check(&policy, 1, &mut state).is_allowed());
        for quota in [Quota::per_day(0), Quota::UNLIMITED] {
            let mut record = Override::NONE;
            record.set_grant(NOW, Some((quota, SECOND)));
            let record = Override::decode(&record.encode()).unwrap();
            let Effect::Granted(granted, grant) = record.effect(&policy, NOW) else { panic!("a grant") };
            assert_eq!(grant.quota(), quota);
            if quota.is_zero() {
                assert_closed(&granted, &mut state);
            } else {
                assert_unlimited(&granted, &mut state);
            }
        }
        // A block goes before a grant.
        let mut record = Override::NONE;
        record.set_grant(NOW, Some((Quota::UNLIMITED, SECOND)));
        record.set_block(NOW, SECOND);
        assert_eq!(record.effect(&policy, NOW), Effect::Blocked(SECOND));
    }
}

#[test]
fn callers_have_quotas_where_the_own_is_constant() {
    let (least, most) = (Quota::per_minute(10), Quota::per_minute(100));
    for own in [Quota::per_minute(0), Quota::UNLIMITED] {
        for (own, plain) in policies(own).into_iter().zip(policies(Quota::per_minute(60))) {
            let plans = own.caller_quotas(least, most);
            let caller = plans.with_quota(Quota::per_minute(60)).unwrap();
            assert_eq!(caller.digest(), plain.digest(), "{caller:?}");
            assert!(!caller.is_unlimited() && caller.strategy().limit() > 0);
            let (mut state, mut of_plain) = (LoadedState::new(None), LoadedState::new(None));
            assert!(check(&caller, 1, &mut state).is_allowed());
            assert!(check(&plain, 1, &mut of_plain).is_allowed());
            assert_eq!(state, of_plain);
        }
    }
}

#[test]
fn constant_quotas_need_no_store() {
    let policy = Policy::fixed_window("plans", Quota::per_minute(60)).on_store_failure(FailureMode::Closed);
    let plans = policy.caller_quotas(Quota::per_minute(10), Quota::per_minute(100));
    for quota in [Quota::per_minute(0), Quota::UNLIMITED] {
        let caller = plans.with_quota(quota).unwrap();
        assert_eq!(caller.failure_mode(), FailureMode::DEFAULT);
        let own = Policy::fixed_window("own", quota).on_store_failure(FailureMode::Open);
        assert_eq!(own.failure_mode(), FailureMode::DEFAULT);
        for share in [&caller, &own] {
            let share = share.share_among(core::num::NonZeroU32::new(7).unwrap()).unwrap();
            let (is_unlimited, limit) = (share.is_unlimited(), share.strategy().limit());
            assert!(if quota.is_zero() { limit == 0 } else { is_unlimited });
        }
    }
}

#[test]
fn requests_do_not_wait_under_zero() {
    let queue = Policy::leaky_bucket("queue", Quota::per_second(0)).wait_at_most(SECOND);
    assert_closed(&queue, &mut LoadedState::new(None));
    let plans = Policy::leaky_bucket("queue", Quota::per_second(5)).wait_at_most(SECOND);
    let plans = plans.caller_quotas(Quota::per_second(1), Quota::per_second(9));
    assert_closed(&plans.with_quota(Quota::per_second(0)).unwrap(), &mut LoadedState::new(None));
}

#[test]
fn ranges_of_constant_quotas_are_errors() {
    let own = Policy::gcra("plans", Quota::per_minute(60));
    for (smallest, largest) in
        [(Quota::per_minute(0), Quota::per_minute(100)), (Quota::per_minute(1), Quota::UNLIMITED)]
    {
        let error = own.clone().set_caller_quotas((smallest, largest)).unwrap_err();
        assert!(matches!(error, CallerQuotasError::Constant { .. }), "{error}");
        assert!(error.to_string().contains("each caller may have 0 and unlimited"), "{error}");
    }
}
