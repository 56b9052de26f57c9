//! What can be wrong with a policy.

use alloc::string::String;

use super::PolicyName;
use crate::{CallerQuotasError, DebtError, FailureModeError, LeaseError, QuotaError, WaitError};

/// One mistake of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The name is empty.
    #[error(
        "the name of a policy is empty: it must be 1 to {} printable ASCII characters",
        PolicyName::MAX_LEN
    )]
    EmptyName,
    /// The name is too long.
    #[error("the name of a policy has {length} characters: at most {} are permitted", PolicyName::MAX_LEN)]
    LongName {
        /// The number of bytes.
        length: usize,
    },
    /// The name has a character that is not printable ASCII.
    #[error("the name of a policy, {name:?}, has a character that is not printable ASCII")]
    UnprintableName {
        /// The name.
        name: String,
    },
    /// The quota does not fit the strategy.
    #[error("policy {policy}: {error}")]
    Quota {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong with its quota.
        error: QuotaError,
    },
    /// The failure mode does not fit the strategy.
    #[error("policy {policy}: {error}")]
    FailureMode {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong with the failure mode.
        error: FailureModeError,
    },
    /// Requests cannot wait that long under the policy.
    #[error("policy {policy}: {error}")]
    Wait {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong with the wait.
        error: WaitError,
    },
    /// The policy cannot have this lease.
    #[error("policy {policy}: {error}")]
    Lease {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong with the lease.
        error: LeaseError,
    },
    /// Settlements cannot leave such a debt under the policy.
    #[error("policy {policy}: {error}")]
    Debt {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong with the debt.
        error: DebtError,
    },
    /// Single callers cannot have these quotas under the policy.
    #[error("policy {policy}: {error}")]
    CallerQuotas {
        /// The name of the policy.
        policy: PolicyName,
        /// What is wrong with the quotas.
        error: CallerQuotasError,
    },
}
