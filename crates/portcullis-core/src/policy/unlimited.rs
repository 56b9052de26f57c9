//! Policies that count nothing.

use super::{PackedMode, Policy};
use crate::{FailureMode, Quota};

impl Policy {
    /// Whether the policy has [`Quota::UNLIMITED`], as its own quota or as that of a caller or a grant. It admits requests and counts
    /// nothing: a decision is not [metered](crate::Decision::is_metered), a state is neither made nor changed, and a layer asks the store
    /// only for the [blocks](Policy::allow_overrides) of a policy that allows overrides.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// let (free, pro) = (Quota::per_day(100), Quota::per_day(10_000));
    /// let plans = Policy::fixed_window("daily", free).caller_quotas(free, pro);
    /// assert!(plans.with_quota(Quota::UNLIMITED)?.is_unlimited() && !plans.is_unlimited());
    /// # Ok::<(), portcullis::store::CallerQuotaError>(())
    /// ```
    #[inline]
    pub const fn is_unlimited(&self) -> bool {
        self.lease_or_wait.is_unlimited()
    }

    /// The units that a check of a cost asks the algorithm for.
    #[inline]
    pub(crate) const fn units(&self, cost: u64) -> u64 {
        if self.is_unlimited() { 0 } else { cost }
    }

    // For the memory store alone: whether its checks take more than a state.
    #[doc(hidden)]
    #[inline]
    pub const fn has_exceptions(&self) -> bool {
        self.lease_or_wait.has_exceptions()
    }

    // For a registry, in which a policy replaces another one.
    /// A policy whose own quota is none with the states of another one of its algorithm, which it does not change.
    #[doc(hidden)]
    #[must_use]
    pub fn with_states_of(self, other: &Self) -> Self {
        match other.strategy_for(Quota::UNLIMITED.with_period(other.strategy.period())) {
            Ok(strategy) if self.strategy.is_unlimited() && strategy.tag() == self.strategy.tag() => {
                Self { strategy, digest: other.digest, ..self }
            }
            _ => self,
        }
    }

    /// The policy with another quota of none: what remains is its name and its states.
    pub(super) fn without_limit(&self) -> Self {
        Self { lease_or_wait: self.lease_or_wait.with_unlimited(), ..self.clone() }.decided_without_store()
    }

    /// Nothing has to be known about a key to admit all of its requests, or none.
    pub(super) fn decided_without_store(self) -> Self {
        Self { failure_mode: PackedMode::new(FailureMode::DEFAULT), ..self }
    }

    /// Whether all requests are admitted, or none.
    pub(super) const fn is_constant(&self) -> bool {
        self.is_unlimited() || self.strategy.limit() == 0
    }
}

/// Whether a quota admits all requests, or none, so that it fits each policy.
pub(super) const fn is_constant(quota: Quota) -> bool {
    quota.is_zero() || quota.is_unlimited()
}

#[cfg(test)]
mod tests;
