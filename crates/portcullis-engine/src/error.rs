//! Why a policy cannot be added to a layer, or changed.

mod change;
mod conflict;
mod option;
mod overriding;
mod quota;

use std::sync::Arc;

use portcullis_core::overrides::LockOut;
use portcullis_core::store::Checks;
use portcullis_core::{Mistakes, PolicyError, PolicyName, PolicyNameError, StoreError, TooMuchWork};

pub use conflict::PolicyConflict;
pub use option::LayerOptionError;
pub use option::MAX_RETRY_SPREAD;
pub use overriding::OverridingError;
pub use quota::QuotaRefusal;

/// Why a layer cannot have a policy, or why a policy cannot change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// An option has an invalid value.
    #[error(transparent)]
    Option(#[from] LayerOptionError),
    /// The first limit of a layer names no key.
    #[error("policy {policy} has no key: add `.by(key)`")]
    NoKey {
        /// The name.
        policy: PolicyName,
    },
    /// The layer has a policy of this name already.
    #[error("policy {policy} is in the layer already: headers could not distinguish the two")]
    Duplicate {
        /// The name.
        policy: PolicyName,
    },
    /// The layer would have more policies than a decision may have.
    #[error("a layer may have at most {} policies", Checks::MAX)]
    TooMany,
    /// A policy reserves units, which are charged at the admission, and is charged after the response.
    #[error("policy {policy} reserves units and is charged after the response: use one of the two")]
    ReservesAndLooks {
        /// The name.
        policy: PolicyName,
    },
    /// A policy reads what responses have used, and reserves nothing that could be settled to it.
    #[error("policy {policy} reads the usage of responses and reserves no units: add `.reserve(..)`")]
    ReadsWithoutReservation {
        /// The name.
        policy: PolicyName,
    },
    /// The quota of a policy would be looked up on its own, while its key is looked up.
    #[error(
        "policy {policy} looks up its key, and that look-up tells the quota of the caller: use `Lookup::quota` in place of \
         `quota_by_async`"
    )]
    TwoLookups {
        /// The name.
        policy: PolicyName,
    },
    /// A policy would have quotas of callers, and declares none.
    #[error(
        "policy {policy} declares no quotas of callers, so each would be refused: add `.caller_quotas(smallest, largest)` to the policy"
    )]
    QuotasNotDeclared {
        /// The name.
        policy: PolicyName,
    },
    /// A policy that limits requests in flight is corrected after the response.
    #[error(
        "policy {policy} limits requests in flight: its permits are released at the end of each response, so it is neither charged by \
         outcome nor reserves units"
    )]
    CorrectsInFlight {
        /// The name.
        policy: PolicyName,
    },
    /// A policy that does not limit requests in flight would hold permits.
    #[error("policy {policy} does not limit requests in flight, so it holds nothing until the headers")]
    NotInFlight {
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
    /// The policy would be enforced for a [share](crate::Percent) of its keys, and the client chooses its key
    /// (`KeyExtractor::is_chosen_by_client`).
    #[error(
        "policy {policy} cannot be enforced for a share of its keys, because clients choose its key, and could change it until \
         it is not in the share: use a key that the server determines, such as an address or a verified identity in an \
         extension, or another mode"
    )]
    UnverifiedKey {
        /// The name.
        policy: PolicyName,
    },
    /// The policy would have a lock-out (`Limit::lock_out`), and clients share a key of it.
    #[error(
        "policy {policy} cannot lock out keys that unrelated clients share, because one of them would lock out all: use a key \
         that distinguishes clients, and do not charge requests without an identity to a shared budget"
    )]
    SharedLockOut {
        /// The name.
        policy: PolicyName,
    },
    /// A policy that limits requests in flight would have a lock-out (`Limit::lock_out`).
    #[error(
        "policy {policy} limits requests in flight: its denials show no abuse and are not counted, so it has no lock-out"
    )]
    LocksOutInFlight {
        /// The name.
        policy: PolicyName,
    },
    /// The policy reads grants and blocks, because it has a lock-out (`Limit::lock_out`) or
    /// [allows overrides](portcullis_core::Policy::allow_overrides), and would have a lease.
    #[error(
        "policy {policy} has a lock-out or allows overrides, and a process that spends a lease would not see its blocks and grants: leave \
         out the lease"
    )]
    LeasedOverrides {
        /// The name.
        policy: PolicyName,
    },
    /// The policy has a different lock-out (`Limit::lock_out`) in another layer.
    #[error(
        "policy {policy} has another lock-out already: {registered:?} is registered, {refused:?} is refused"
    )]
    LockOutConflict {
        /// The name.
        policy: PolicyName,
        /// The lock-out that all layers with the policy have.
        registered: Box<LockOut>,
        /// The lock-out that is refused.
        refused: Box<LockOut>,
    },
    /// No layer of the limiter has a policy of this name, no handler has checked one, and none was registered.
    #[error(
        "there is no policy {policy} to change: no layer of the limiter has it, and no handler has checked it (`Limiter::register` makes it \
         known from the start)"
    )]
    Unknown {
        /// The name.
        policy: PolicyName,
    },
    /// A text is no name of a policy.
    #[error("there is no policy {name:?} to change: {error}")]
    NoName {
        /// The text.
        name: String,
        /// What is wrong with it.
        error: PolicyNameError,
    },
    /// The policy cannot have another quota.
    #[error("{error}")]
    Quota {
        /// The name.
        policy: PolicyName,
        /// What does not fit the quota.
        error: Box<Mistakes<PolicyError>>,
    },
    /// The new quota of a policy is 0, which would reject all of its requests. A service is closed by a change of its policies.
    #[error("policy {policy}: a quota of 0 rejects all requests: write a quota of 1 or more")]
    ZeroQuota {
        /// The name.
        policy: PolicyName,
    },
    /// A signed document sets the policy, so that its quota is not set by hand.
    #[error(
        "policy {policy} is set by the signed document {document:?}: push a document with another quota, or without the policy"
    )]
    OwnedByDocument {
        /// The name.
        policy: PolicyName,
        /// The name of the document.
        document: Arc<str>,
    },
    /// Rules would be removed that the program limits by, on their own.
    #[error(
        "rule {rule} cannot be removed, because the program limits requests by it: keep it, and set its mode to off"
    )]
    RuleInUse {
        /// The name.
        rule: String,
    },
    /// The program requires of its rules what these do not meet.
    #[error("the rules cannot be used here: {reason}")]
    Unusable {
        /// What is wrong with them.
        reason: String,
    },
    /// The policy cannot be replaced by the other one while it is in use.
    #[error("{}", change::refused(.0))]
    Incompatible(PolicyConflict),
}
