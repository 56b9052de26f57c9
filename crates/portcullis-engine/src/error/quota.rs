//! Why a quota of a caller is not used.

use portcullis_core::{CallerQuotaError, TooMuchWork};

/// Why a policy does not use the quota of a caller. The caller has the policy's own quota then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaRefusal {
    /// The policy does not [declare](portcullis_core::Policy::caller_quotas) this quota.
    #[error(transparent)]
    Invalid(#[from] CallerQuotaError),
    /// With this quota, the policies of the layer would cause more work for the server of the store than one decision may have.
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
    /// A look-up has returned the quota of a policy whose key it does not find.
    #[error(
        "the look-up does not find the key of this policy: name a policy of `by_async` with this look-up, or use `quota_by_async`"
    )]
    NotLookedUp,
}
