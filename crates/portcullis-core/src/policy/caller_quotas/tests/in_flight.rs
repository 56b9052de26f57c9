//! Limits of single callers on requests in flight.

use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::{prop_assert_eq, proptest};

use crate::algorithm::State;
use crate::refund::Refund;
use crate::store::Run;
use crate::{Concurrency, FailureMode, Policy, Quota, Timestamp};

const LEASE: u64 = 10_000_000;

/// The period of the quotas is any: a limit on requests in flight has none.
fn quota(limit: u64) -> Quota {
    Quota::per_minute(limit)
}

fn exports(limit: u64) -> Policy {
    Concurrency::new("exports", limit).lease(Duration::from_micros(LEASE)).policy()
}

#[test]
fn callers_differ_in_limits_not_in_leases() {
    let plans = exports(4).on_store_failure(FailureMode::local(2)).caller_quotas(quota(2), quota(1_000));
    let caller = plans.with_quota(quota(50)).unwrap();
    assert_eq!((caller.digest(), caller.strategy().tag()), (plans.digest(), "in_flight"));
    assert_eq!((caller.strategy().limit(), caller.strategy().window()), (50, Duration::from_micros(LEASE)));
    assert_eq!(caller.share().unwrap().strategy().limit(), 25);
    assert_eq!(plans.with_quota(quota(4)).unwrap(), plans);
}

#[test]
fn limits_of_callers_out_of_range_are_errors() {
    let plans = exports(4).caller_quotas(quota(2), quota(10));
    for (quota, why) in [
        (quota(1), "from 2/min to 10/min"),
        (quota(11), "from 2/min to 10/min"),
        (quota(4).burst(4), "burst of 4"),
        (Quota::per_hour(4), "period must be 60s"),
    ] {
        let error = plans.with_quota(quota).unwrap_err().to_string();
        assert!(error.contains("exports") && error.contains(why), "{error}");
    }
    let error = |smallest, largest| exports(4).validate_range(smallest, largest).unwrap_err().to_string();
    assert!(error(quota(1), quota(1_001)).contains("1001 requests"));
    assert!(error(quota(5), quota(9)).contains("widen"));
    assert!(error(quota(1), quota(9).burst(9)).contains("burst of 9"));
}

proptest! {
    /// Each step is made by the caller with the smallest, the policy's own or the largest limit.
    #[test]
    fn callers_share_permits_under_limits_of_their_own(
        limits in [1_u64..20, 1..20, 1..20],
        steps in proptest::collection::vec((0_usize..3, 0_u64..LEASE / 2, 0_usize..5, 1_u64..6, 0_usize..8), 1..80),
    ) {
        let mut limits = limits;
        limits.sort_unstable();
        let plans = exports(limits[1]).caller_quotas(quota(limits[0]), quota(limits[2]));
        let callers = limits.map(|limit| *plans.with_quota(quota(limit)).unwrap().strategy());
        let (mut state, mut now): (Option<State>, _) = (None, 1 << 50);
        // The run of each charge, and when its permits expire.
        let mut charges: Vec<(Run, u64)> = Vec::new();
        for (who, later, step, units, which) in steps {
            now += later;
            let (caller, at) = (&callers[who], Timestamp::from_micros(now));
            let held = |charges: &[(Run, u64)]| {
                charges.iter().filter(|(_, expires)| *expires > now).map(|(run, _)| run.units).sum::<u64>()
            };
            let which = which % charges.len().max(1);
            match step {
                0..3 => {
                    let fits = held(&charges) + units <= limits[who];
                    prop_assert_eq!(caller.evaluate(state.as_ref(), at, units).admitted, fits);
                    if fits {
                        caller.charge(&mut state, at, units);
                        let position = caller.position(state.as_ref(), at);
                        charges.push((Run { units, position }, now + LEASE));
                    }
                }
                3 if !charges.is_empty() => {
                    let (run, _) = charges.remove(which);
                    caller.refund(&mut state, at, Refund::of(&[run]));
                }
                4 if !charges.is_empty() => {
                    let (run, expires) = &mut charges[which];
                    let is_held = *expires > now;
                    let renewed = caller.renew(&mut state, at, &[*run]);
                    prop_assert_eq!(renewed.held, if is_held { run.units } else { 0 });
                    if is_held {
                        *expires = now + LEASE;
                    }
                }
                _ => {}
            }
            for (caller, limit) in callers.iter().zip(limits) {
                let snapshot = caller.snapshot(state.as_ref(), at, 0, true);
                let remaining = limit.saturating_sub(held(&charges));
                prop_assert_eq!((snapshot.limit, snapshot.remaining), (limit, remaining));
            }
        }
    }
}
