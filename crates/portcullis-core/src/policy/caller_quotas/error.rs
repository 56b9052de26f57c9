//! Errors of quotas of single callers.

use core::time::Duration;

use crate::{PolicyName, Quota, QuotaError};

/// Why single callers cannot have the declared quotas under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallerQuotasError {
    /// A quota has another period than the policy, or than the other quota.
    #[error(
        "callers cannot have {quota}: all quotas of a policy have one period, which is {period:?}; write a second policy for the \
         other period, and in each make the callers of the other one unlimited"
    )]
    OtherPeriod {
        /// The quota.
        quota: Quota,
        /// The period of the policy's own quota, or of the smallest one.
        period: Duration,
    },
    /// The smallest or the largest quota is zero or unlimited, which each caller may have.
    #[error(
        "quotas of callers cannot be declared from or to {quota}: each caller may have 0 and unlimited, declare the others"
    )]
    Constant {
        /// The quota.
        quota: Quota,
    },
    /// The limit or the burst of the smallest quota is more than that of the largest.
    #[error("quotas from {smallest} to {largest}: the limit and the burst of the first must not be more")]
    Reversed {
        /// The first quota.
        smallest: Quota,
        /// The second quota.
        largest: Quota,
    },
    /// The policy's own quota is outside of the range.
    #[error("quotas from {smallest} to {largest} do not include the policy's own: widen the range")]
    OwnQuotaOutOfRange {
        /// The smallest quota.
        smallest: Quota,
        /// The largest quota.
        largest: Quota,
    },
    /// The debt of the policy is too large for a quota.
    #[error("callers cannot have {quota}: a debt of {units} units is too large for it, at most {most}")]
    Debt {
        /// The quota.
        quota: Quota,
        /// The units of the debt.
        units: u64,
        /// The largest debt under this quota.
        most: u64,
    },
    /// A quota exceeds a bound of the algorithm.
    #[error("callers cannot have {quota}: {error}")]
    Quota {
        /// The quota.
        quota: Quota,
        /// What is wrong with it.
        error: QuotaError,
    },
}

/// Why a caller cannot have a quota of its own under a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallerQuotaError {
    /// The policy declares no quotas of single callers.
    #[error("policy {policy}: a caller cannot have {quota}: declare the quotas with `caller_quotas`")]
    NotDeclared {
        /// The name of the policy.
        policy: PolicyName,
        /// The quota.
        quota: Quota,
    },
    /// The quota has another period than the declared ones.
    #[error("policy {policy}: a caller cannot have {quota}: its period must be {period:?}")]
    OtherPeriod {
        /// The name of the policy.
        policy: PolicyName,
        /// The quota.
        quota: Quota,
        /// The period of the declared quotas.
        period: Duration,
    },
    /// The quota has a burst, and the policy is a window or log.
    #[error("policy {policy}: a caller cannot have a burst of {burst}: its algorithm has none")]
    BurstNotSupported {
        /// The name of the policy.
        policy: PolicyName,
        /// The burst of the quota.
        burst: u64,
    },
    /// The limit or the burst is outside of the declared range.
    #[error(
        "policy {policy}: a caller cannot have {quota}: the declared quotas are from {smallest} to {largest}"
    )]
    OutOfRange {
        /// The name of the policy.
        policy: PolicyName,
        /// The quota.
        quota: Quota,
        /// The smallest declared quota.
        smallest: Quota,
        /// The largest declared quota.
        largest: Quota,
    },
    /// The quota exceeds a bound of the algorithm, for example in the share of one instance.
    #[error("policy {policy}: a caller cannot have {quota}: {error}")]
    Quota {
        /// The name of the policy.
        policy: PolicyName,
        /// The quota.
        quota: Quota,
        /// What is wrong with it.
        error: QuotaError,
    },
}
