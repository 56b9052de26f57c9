//! Keeps the cause of a rejection whose response is made later, by a handler.

use std::time::Duration;

use portcullis_core::PolicyName;
use portcullis_core::store::Outcome;

use super::Cause;
use crate::KeyError;
use crate::policy::PolicySet;

/// A [`Cause`] that owns its data.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every rejection is the largest variant")]
pub(crate) enum OwnedCause {
    Limited { outcome: Outcome, checked: PolicySet, retry_offset: Duration },
    Denied,
    Unsettled(PolicyName),
    NoKey(KeyError),
    StoreFailed,
    Overloaded,
    LookupFailed,
}

impl OwnedCause {
    /// The cause of a rejection whose wait is [later](crate::Rejection::retried_later_by) by `retry_offset`.
    pub(crate) fn new(cause: Cause<'_>, retry_offset: Duration) -> Self {
        match cause {
            Cause::Limited { outcome, checked } => {
                Self::Limited { outcome: outcome.clone(), checked, retry_offset }
            }
            Cause::Denied => Self::Denied,
            Cause::Unsettled(policy) => Self::Unsettled(policy.clone()),
            Cause::NoKey(error) => Self::NoKey(error.clone()),
            Cause::StoreFailed => Self::StoreFailed,
            // No check of a handler sheds.
            Cause::Overloaded | Cause::Shed => Self::Overloaded,
            Cause::LookupFailed => Self::LookupFailed,
        }
    }

    /// The time that is added to the wait.
    pub(crate) fn retry_offset(&self) -> Duration {
        match self {
            Self::Limited { retry_offset, .. } => *retry_offset,
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn as_cause(&self) -> Cause<'_> {
        match self {
            Self::Limited { outcome, checked, .. } => Cause::Limited { outcome, checked: *checked },
            Self::Denied => Cause::Denied,
            Self::Unsettled(policy) => Cause::Unsettled(policy),
            Self::NoKey(error) => Cause::NoKey(error),
            Self::StoreFailed => Cause::StoreFailed,
            Self::Overloaded => Cause::Overloaded,
            Self::LookupFailed => Cause::LookupFailed,
        }
    }
}
