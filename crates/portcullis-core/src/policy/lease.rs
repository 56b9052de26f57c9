//! Whether a policy can be leased, and how much of it.

use core::num::NonZeroU64;

use crate::{Policy, Strategy};

/// Why a policy cannot have a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease has no units.
    #[error("a lease of 0 units saves no call: it must be at least 1, or left out")]
    ZeroUnits,
    /// The lease has more units than can be admitted at one instant.
    #[error("a lease of {units} units is more than the policy admits at one instant, which is {limit}")]
    TooManyUnits {
        /// The units of the lease.
        units: u64,
        /// The burst of a token bucket or GCRA, or the limit of a window.
        limit: u64,
    },
    /// The burst of a token bucket or GCRA is less than [`Policy::MIN_LEASED_BURST`](crate::Policy::MIN_LEASED_BURST).
    #[error("a burst of {burst} is too small for a lease: it must be at least 10")]
    SmallBurst {
        /// The burst.
        burst: u64,
    },
    /// The strategy needs the instant or the order of each unit, has windows of a calendar, or limits requests in flight.
    #[error(
        "a policy of the strategy {strategy} cannot be leased: use a token bucket, GCRA, a fixed or a sliding window"
    )]
    Strategy {
        /// The [tag](Strategy::tag) of the strategy.
        strategy: &'static str,
    },
    /// Requests wait under the policy, and their order is that of the store.
    #[error("a policy under which requests wait cannot be leased: leave out the lease or the wait")]
    Waits,
    /// The checks of the policy read overrides, which a process that spends a lease would not see.
    #[error(
        "a policy with grants or blocks cannot be leased: leave out the lease, or overrides and lock-outs"
    )]
    Overrides,
}

impl LeaseError {
    /// Panics on an invalid literal.
    #[track_caller]
    pub(super) const fn panic(self) -> ! {
        match self {
            Self::ZeroUnits => panic!("a lease of 0 units saves no call: it must be at least 1"),
            Self::TooManyUnits { .. } => {
                panic!("a lease has at most the units that the policy admits at one instant")
            }
            Self::SmallBurst { .. } => panic!("a lease needs a burst of at least 10"),
            Self::Strategy { .. } => panic!("only buckets, fixed and sliding windows can be leased"),
            Self::Waits => panic!("a policy under which requests wait cannot be leased"),
            Self::Overrides => panic!("a policy with grants or blocks cannot be leased: leave out the lease"),
        }
    }
}

/// Checks whether a policy can have leases of this size.
pub(super) const fn validate(policy: &Policy, units: u64) -> Result<NonZeroU64, LeaseError> {
    if policy.waits() {
        return Err(LeaseError::Waits);
    }
    if policy.reads_overrides() {
        return Err(LeaseError::Overrides);
    }
    validate_size(policy.strategy(), units)
}

/// Checks whether a policy with this strategy can have leases of this size.
pub(super) const fn validate_size(strategy: &Strategy, units: u64) -> Result<NonZeroU64, LeaseError> {
    let limit = strategy.limit();
    match strategy {
        Strategy::LeakyBucket(_)
        | Strategy::CalendarWindow(_)
        | Strategy::SlidingLog(_)
        | Strategy::InFlight(_) => {
            return Err(LeaseError::Strategy { strategy: strategy.tag() });
        }
        Strategy::TokenBucket(_) | Strategy::Gcra(_) if limit < MIN_BURST => {
            return Err(LeaseError::SmallBurst { burst: limit });
        }
        Strategy::TokenBucket(_)
        | Strategy::Gcra(_)
        | Strategy::FixedWindow(_)
        | Strategy::SlidingWindow(_) => {}
    }
    if units > limit {
        return Err(LeaseError::TooManyUnits { units, limit });
    }
    match NonZeroU64::new(units) {
        Some(units) => Ok(units),
        None => Err(LeaseError::ZeroUnits),
    }
}

/// With a smaller burst, half of what remains is less than a lease is worth.
pub(super) const MIN_BURST: u64 = 10;

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use super::*;
    use crate::{Concurrency, Quota};

    fn error(policy: &Policy, units: u64) -> String {
        validate(policy, units).unwrap_err().to_string()
    }

    #[test]
    fn buckets_with_a_burst_and_windows_are_leasable() {
        let quota = Quota::per_second(1_000);
        for policy in [
            Policy::token_bucket("a", quota),
            Policy::gcra("a", quota.burst(1_000)),
            Policy::fixed_window("a", quota),
            Policy::sliding_window("a", quota),
        ] {
            assert_eq!(policy.max_lease(), None);
            assert_eq!(policy.clone().lease(1_000).max_lease().map(u64::from), Some(1_000));
            assert!(error(&policy, 1_001).contains("which is 1000"));
            assert!(error(&policy, 0).contains("0 units"));
        }
        assert!(validate(&Policy::gcra("a", quota.burst(10)), 10).is_ok());
    }

    #[test]
    fn other_policies_are_not_leasable() {
        let quota = Quota::per_second(1_000);
        assert!(error(&Policy::gcra("spaced", quota.burst(9)), 5).contains("burst of 9"));
        assert!(error(&Policy::leaky_bucket("a", quota), 1).contains("leaky_bucket"));
        assert!(error(&Policy::sliding_log("a", quota), 1).contains("sliding_log"));
        assert!(error(&Concurrency::new("a", 1_000).policy(), 1).contains("in_flight"));
    }

    #[test]
    #[should_panic(expected = "burst of at least 10")]
    fn invalid_literal_lease_panics() {
        let _ = Policy::gcra("a", Quota::per_second(1)).lease(1);
    }

    #[test]
    fn a_share_has_no_lease() {
        let leased = Policy::fixed_window("a", Quota::per_second(100)).lease(50);
        assert_eq!(leased.share().and_then(|share| share.max_lease()), None);
    }
}
