//! Errors of calls as errors of the store.

use std::borrow::Cow;
use std::time::Duration;

use portcullis_core::{StoreError, StoreErrorKind};

use crate::transport::CallError;

/// Adds for how long there has been an outage. An overload is no outage, whatever the server does.
pub(super) fn with_outage(error: StoreError, outage: Option<Duration>) -> StoreError {
    match outage {
        Some(outage) if !error.kind().is_overload() => error.with_outage(outage),
        _ => error,
    }
}

pub(super) fn store_error(error: &CallError) -> StoreError {
    let kind = match error {
        CallError::Overtaken(_) => StoreErrorKind::Overtaken,
        unknown if unknown.fate_unknown() => StoreErrorKind::TimedOut,
        CallError::Overloaded | CallError::NotSent(_) => StoreErrorKind::Overloaded,
        CallError::Denied(_) => StoreErrorKind::Forbidden,
        CallError::Unavailable(Cow::Borrowed(fixed)) => {
            return StoreError::new(StoreErrorKind::Unavailable, *fixed);
        }
        CallError::Server(_) => StoreErrorKind::Failed,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, error.to_string())
}
