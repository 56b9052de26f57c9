//! What can be wrong with a policy.

use super::{PolicyName, PolicyNameError};
use crate::{CallerQuotasError, DebtError, FailureModeError, LeaseError, QuotaError, WaitError};

/// One mistake of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] PolicyNameError),
    /// A part of the policy is wrong, or does not fit another one.
    #[error("policy {policy}: {error}")]
    Part {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong.
        error: PolicyPartError,
    },
}

/// What is wrong with a part of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub enum PolicyPartError {
    /// The quota does not fit the strategy.
    Quota(QuotaError),
    /// The failure mode does not fit the strategy.
    FailureMode(FailureModeError),
    /// Requests cannot wait that long under the policy.
    Wait(WaitError),
    /// The policy cannot have this lease.
    Lease(LeaseError),
    /// Settlements cannot leave such a debt under the policy.
    Debt(DebtError),
    /// Single callers cannot have these quotas under the policy.
    CallerQuotas(CallerQuotasError),
}
