//! Policies that this store cannot decide.

use portcullis_core::{Policy, StoreError, StoreErrorKind, Strategy};

/// Returns why this store cannot decide under a policy, if it cannot.
pub(crate) fn reject(policy: &Policy) -> Option<StoreError> {
    let Strategy::InFlight(_) = policy.strategy() else { return None };
    let message = format!(
        "policy {}: the Redis store has no limits on requests in flight: use a memory store",
        policy.name()
    );
    Some(StoreError::new(StoreErrorKind::Unsupported, message))
}
