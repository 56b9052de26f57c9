//! What can be wrong with a policy.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{slice, vec};
use core::fmt;

use super::PolicyName;
use crate::{CallerQuotasError, DebtError, FailureModeError, LeaseError, QuotaError, WaitError};

/// Every mistake of a policy, at least one.
///
/// It prints all of them, separated by `; `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(Vec<PolicyError>);

impl PolicyErrors {
    /// `value`, if there are no mistakes.
    pub(super) fn none_or<T>(errors: Vec<PolicyError>, value: T) -> Result<T, Self> {
        if errors.is_empty() { Ok(value) } else { Err(Self(errors)) }
    }

    /// The mistakes, in the order of the parameters and the fields.
    pub fn iter(&self) -> slice::Iter<'_, PolicyError> {
        self.0.iter()
    }
}

impl IntoIterator for PolicyErrors {
    type Item = PolicyError;
    type IntoIter = vec::IntoIter<PolicyError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'e> IntoIterator for &'e PolicyErrors {
    type Item = &'e PolicyError;
    type IntoIter = slice::Iter<'e, PolicyError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl core::error::Error for PolicyErrors {}

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
