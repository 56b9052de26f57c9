//! What is wrong with an override.

use core::time::Duration;

use crate::policy::GrantedQuotaError;
use crate::{Policy, PolicyName, Quota};

/// The longest time for which a key is granted another quota or blocked: 2^51 microseconds, about 71 years.
pub const MAX_LENGTH: Duration = Quota::MAX_PERIOD;

/// Why a key cannot have an override under a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The checks of the policy do not look for overrides.
    #[error(
        "policy {policy} has no grants and blocks: allow them (`overrides = true` in rules, `Policy::allow_overrides` in code), or give it a lock-out"
    )]
    NotRead {
        /// The name of the policy.
        policy: PolicyName,
    },
    /// The grant or block has no length, or less than a microsecond.
    #[error(
        "a grant or block under policy {policy} would last {length:?}: its end must be at least 1 us ahead"
    )]
    TooShort {
        /// The name of the policy.
        policy: PolicyName,
        /// The length.
        length: Duration,
    },
    /// The grant or block is longer than 2^51 microseconds.
    #[error("a grant or block under policy {policy} would last {length:?}: at most 2^51 us (about 71 years)")]
    TooLong {
        /// The name of the policy.
        policy: PolicyName,
        /// The length.
        length: Duration,
    },
    /// A block under all policies has no length, or less than a microsecond.
    #[error("the block would last {length:?}: its end must be at least 1 us ahead")]
    ClientTooShort {
        /// The length.
        length: Duration,
    },
    /// A block under all policies is longer than 2^51 microseconds.
    #[error("the block would last {length:?}: at most 2^51 us (about 71 years)")]
    ClientTooLong {
        /// The length.
        length: Duration,
    },
    /// Unrelated clients share the key that would be blocked under all policies.
    #[error("unrelated clients share this key, so that all of them would be blocked: name one client")]
    SharedClient,
    /// The policy cannot have the quota of the grant.
    #[error("a grant of {quota} does not fit policy {policy}: {error}")]
    Quota {
        /// The name of the policy.
        policy: PolicyName,
        /// The quota.
        quota: Quota,
        /// What is wrong with it.
        error: GrantedQuotaError,
    },
}

/// Checks whether a key can be granted a quota under a policy for a length of time.
///
/// # Errors
///
/// If the policy does not [read overrides](Policy::reads_overrides), if it cannot have the quota, or if the length is zero or longer
/// than 2^51 microseconds.
pub fn validate_grant(policy: &Policy, quota: Quota, length: Duration) -> Result<(), OverrideError> {
    validate_block(policy, length)?;
    match policy.granted(quota) {
        Ok(_) => Ok(()),
        Err(error) => Err(OverrideError::Quota { policy: policy.name().clone(), quota, error }),
    }
}

/// Checks whether a key can be blocked under a policy for a length of time.
///
/// # Errors
///
/// If the policy does not [read overrides](Policy::reads_overrides), or if the length is zero or longer than 2^51 microseconds.
pub fn validate_block(policy: &Policy, length: Duration) -> Result<(), OverrideError> {
    validate_policy(policy)?;
    let policy = || policy.name().clone();
    if length.as_micros() == 0 {
        return Err(OverrideError::TooShort { policy: policy(), length });
    }
    if length > MAX_LENGTH {
        return Err(OverrideError::TooLong { policy: policy(), length });
    }
    Ok(())
}

/// Checks whether the checks of a policy read overrides.
///
/// # Errors
///
/// If the policy does not [read overrides](Policy::reads_overrides).
pub fn validate_policy(policy: &Policy) -> Result<(), OverrideError> {
    if policy.reads_overrides() {
        Ok(())
    } else {
        Err(OverrideError::NotRead { policy: policy.name().clone() })
    }
}
