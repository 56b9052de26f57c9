//! Why a key cannot be blocked or granted another quota.

use portcullis_core::overrides::OverrideError;
use portcullis_core::{PolicyName, StoreError};

/// Why a key cannot be blocked, or granted another quota, by hand: by `Limiter::block` or `Limiter::grant`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverridingError {
    /// The limiter has no policy of this name, and the given one does not [allow overrides](portcullis_core::Policy::allow_overrides).
    #[error(
        "no layer of the limiter has the policy {policy}: use the policy of a layer, or one that is built with `Policy::allow_overrides`"
    )]
    Unknown {
        /// The name.
        policy: PolicyName,
    },
    /// The policy has no grants and blocks, or cannot have this one.
    #[error(transparent)]
    Invalid(#[from] OverrideError),
    /// The store keeps no overrides, has no room for one, or cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
