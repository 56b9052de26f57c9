//! Why a policy cannot be added to a layer.

mod conflict;
mod option;

use portcullis_core::store::Checks;
use portcullis_core::{PolicyName, StoreError, TooMuchWork};

pub use conflict::PolicyConflict;
pub use option::LayerOptionError;
pub(crate) use option::MAX_RETRY_SPREAD;

/// Why a layer cannot have a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The layer has a policy of this name already.
    #[error("policy {policy} is in the layer already: headers could not distinguish the two")]
    Duplicate {
        /// The name.
        policy: PolicyName,
    },
    /// The layer would have more policies than a decision may have.
    #[error("a layer may have at most {} policies", Checks::MAX)]
    TooMany,
    /// A policy is corrected after the response, in a layer without charges.
    #[error(
        "policy {policy} is charged by outcome or reserves units, which needs the charge that `without_charge` leaves out"
    )]
    NeedsCharge {
        /// The name.
        policy: PolicyName,
    },
    /// The policies cause more work for the server of the store than one decision may have.
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
    /// The limiter has a different policy of this name.
    #[error(transparent)]
    Conflict(#[from] PolicyConflict),
    /// The store cannot keep the policy's states: it has no capacity for another policy.
    #[error("{error}")]
    Refused {
        /// The name.
        policy: PolicyName,
        /// The error of the store, with the setting to change.
        error: StoreError,
    },
}
