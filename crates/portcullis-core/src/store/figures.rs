//! What a store reports about itself: figures, and its calls to a server.

use core::time::Duration;

use crate::{PolicyName, StoreErrorKind};

/// A number that a store reports about itself. See [`Store::figures`](crate::store::Store::figures).
///
/// The name and the policy identify a figure of a store. There are as many figures as the store has kinds and policies: none is per key.
///
/// ```
/// use portcullis::store::{Figure, FigureKind, FigureUnit};
///
/// let bytes = Figure::gauge("bytes", 4_096, "Bytes that states take at most.").in_unit(FigureUnit::Bytes);
/// assert_eq!((bytes.name, bytes.value, bytes.kind), ("bytes", 4_096, FigureKind::Gauge));
/// assert!(bytes.policy.is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure<'a> {
    /// The name, in `snake_case`, without a prefix and without a unit: `entries`, `breaker_open`.
    pub name: &'static str,
    /// Whether the value only grows.
    pub kind: FigureKind,
    /// The unit of the value.
    pub unit: FigureUnit,
    /// The policy that the value is about; `None` if it is about the whole store.
    pub policy: Option<&'a PolicyName>,
    /// The value.
    pub value: u64,
    /// What is counted: a sentence for people.
    pub help: &'static str,
}

/// Whether a [`Figure`] only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FigureKind {
    /// A total since the start of the store. It never decreases while the store lives.
    Counter,
    /// A value at the present instant.
    Gauge,
}

/// The unit of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FigureUnit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
}

impl<'a> Figure<'a> {
    /// A total since the start of the store, in [`FigureUnit::Count`].
    pub const fn counter(name: &'static str, value: u64, help: &'static str) -> Self {
        Self { name, kind: FigureKind::Counter, unit: FigureUnit::Count, policy: None, value, help }
    }

    /// A value at the present instant, in [`FigureUnit::Count`].
    pub const fn gauge(name: &'static str, value: u64, help: &'static str) -> Self {
        Self { name, kind: FigureKind::Gauge, unit: FigureUnit::Count, policy: None, value, help }
    }

    /// Sets the unit.
    #[must_use]
    pub const fn in_unit(self, unit: FigureUnit) -> Self {
        Self { unit, ..self }
    }

    /// Makes the figure one about this policy.
    #[must_use]
    pub const fn of_policy(self, policy: &'a PolicyName) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Replaces the name, for a store that reports the figures of two.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

impl FigureKind {
    /// `counter` or `gauge`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

impl FigureUnit {
    /// `count`, `bytes` or `microseconds`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Microseconds => "microseconds",
        }
    }
}

/// Is called for each call of a store to its server. See [`Store::observe_calls`](crate::store::Store::observe_calls).
pub trait CallObserver: Send + Sync {
    /// Is called when a call to the server has ended, on the task that has waited for it: it should not block.
    fn on_call(&self, call: &StoreCall);
}

/// A call of a store to its server that has ended.
///
/// ```
/// use core::time::Duration;
/// use portcullis::store::{CallOutcome, StoreCall, StoreErrorKind};
///
/// let failed = CallOutcome::Failed(StoreErrorKind::TimedOut.as_str());
/// let call = StoreCall::new(Duration::from_millis(50), 3, failed);
/// assert_eq!((call.decisions, call.outcome), (3, CallOutcome::Failed("timed_out")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCall {
    /// From the moment the call was sent to its reply, or to the moment when the store gave up.
    pub latency: Duration,
    /// The number of decisions in the call: more than one if the store combines them.
    pub decisions: u32,
    /// How the call ended.
    pub outcome: CallOutcome,
}

/// How a [`StoreCall`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The server has answered. A denial is an answer.
    Answered,
    /// There was no answer, or one that decides nothing. The text is one of a few that the store defines, in `snake_case`, such as
    /// those of [`StoreErrorKind::as_str`].
    Failed(&'static str),
}

impl StoreCall {
    /// A call that has ended. For stores.
    pub const fn new(latency: Duration, decisions: u32, outcome: CallOutcome) -> Self {
        Self { latency, decisions, outcome }
    }
}

impl StoreErrorKind {
    /// The name of the kind in `snake_case`, for labels of metrics: `unavailable`, `timed_out`, `overloaded`, `overtaken`, `forbidden`,
    /// `unsupported` or `failed`.
    ///
    /// ```
    /// assert_eq!(portcullis::store::StoreErrorKind::Overloaded.as_str(), "overloaded");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::Overtaken => "overtaken",
            Self::Forbidden => "forbidden",
            Self::Unsupported => "unsupported",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_keeps_what_it_was_made_of() {
        let policy = PolicyName::new("login").unwrap();
        let figure = Figure::counter("overflowed_checks", 3, "Checks.")
            .of_policy(&policy)
            .in_unit(FigureUnit::Microseconds)
            .named("fallback_overflowed_checks");
        assert_eq!((figure.name, figure.value, figure.help), ("fallback_overflowed_checks", 3, "Checks."));
        assert_eq!((figure.kind.as_str(), figure.unit.as_str()), ("counter", "microseconds"));
        assert_eq!(figure.policy, Some(&policy));
        let gauge = Figure::gauge("entries", 1, "Keys.");
        assert_eq!((gauge.kind.as_str(), gauge.unit.as_str(), gauge.policy), ("gauge", "count", None));
        assert_eq!(gauge.in_unit(FigureUnit::Bytes).unit.as_str(), "bytes");
    }
}
