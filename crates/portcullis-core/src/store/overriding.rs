//! Errors of overrides as errors of stores.

use alloc::format;

use crate::overrides::OverrideError;
use crate::{Policy, StoreError, StoreErrorKind};

impl From<OverrideError> for StoreError {
    fn from(error: OverrideError) -> Self {
        Self::new(StoreErrorKind::Unsupported, alloc::string::ToString::to_string(&error))
    }
}

/// The error of a store that keeps no overrides.
#[cold]
pub(super) fn unsupported(policy: &Policy, method: &str) -> StoreError {
    let message = format!(
        "policy {}: this store keeps no overrides: use a store that does, such as `MemoryStore`, or implement `Store::{method}`",
        policy.name()
    );
    StoreError::new(StoreErrorKind::Unsupported, message)
}
