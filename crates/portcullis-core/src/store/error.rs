//! Errors of stores.

use alloc::borrow::Cow;
use core::fmt;
use core::time::Duration;

/// Why a store cannot answer. A denial is never an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Cow<'static, str>,
    outage: Option<Duration>,
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached. Nothing was charged.
    Unavailable,
    /// No answer came in time. Whether the charge was made is unknown.
    TimedOut,
    /// Too many calls are waiting in this process. Nothing was charged.
    Overloaded,
    /// No answer came in time, although calls that were sent later were answered: the connection works, but something is
    /// overloaded. Whether the charge was made is unknown.
    Overtaken,
    /// The store's server does not permit a necessary operation.
    Forbidden,
    /// The store does not support this. The error is permanent until the set-up changes.
    Unsupported,
    /// The answer could not be understood, or the server reported an error.
    Failed,
}

impl StoreErrorKind {
    /// Whether the store is available but overloaded. The request is rejected then: a policy's
    /// [failure mode](crate::FailureMode) is for outages, and load must not give a client a second budget.
    #[must_use]
    pub const fn is_overload(self) -> bool {
        matches!(self, Self::Overloaded | Self::Overtaken)
    }

    /// Whether the result is unknown: the charge may have been made in spite of the error.
    #[must_use]
    pub const fn is_fate_unknown(self) -> bool {
        matches!(self, Self::TimedOut | Self::Overtaken)
    }

    /// Whether the call certainly did nothing, so that it may be repeated. Where this is `false`, the call may have charged or
    /// refunded, or would fail again.
    ///
    /// ```
    /// use portcullis::store::StoreErrorKind;
    ///
    /// assert!(StoreErrorKind::Unavailable.may_repeat() && StoreErrorKind::Overloaded.may_repeat());
    /// assert!(!StoreErrorKind::TimedOut.may_repeat() && !StoreErrorKind::Failed.may_repeat());
    /// ```
    #[must_use]
    pub const fn may_repeat(self) -> bool {
        matches!(self, Self::Unavailable | Self::Overloaded)
    }
}

impl StoreError {
    /// An error with a message for the log: lower case, without a full stop, naming no identity.
    pub fn new(kind: StoreErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), outage: None }
    }

    /// Sets how long the part of the store that was asked has not answered any call.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::StoreError;
    /// use portcullis::store::StoreErrorKind;
    ///
    /// let error = StoreError::new(StoreErrorKind::Unavailable, "no connection");
    /// assert_eq!(error.outage(), None);
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(error.with_outage(minute).outage(), Some(minute));
    /// ```
    #[must_use]
    pub fn with_outage(self, outage: Duration) -> Self {
        Self { outage: Some(outage), ..self }
    }

    /// The kind of the error.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// How long the part of the store that was asked has not answered any call; `None` if the store does not report it.
    pub const fn outage(&self) -> Option<Duration> {
        self.outage
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for StoreError {}
