//! Why a settlement is given up.

use std::fmt;

/// Why the settlement of a reservation is given up. See [`EventKind::SettlementLost`](crate::EventKind::SettlementLost).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettlementLoss {
    /// The store may have made it: no answer came in time, one that cannot be understood, or an error of the store's server. It is
    /// never repeated.
    Unknown,
    /// The store does not permit or support it.
    Refused,
    /// The store has certainly not made it, in all attempts.
    GivenUp,
    /// The store has certainly not made it, and too many others wait to be repeated.
    QueueFull,
    /// The response ended outside of a Tokio runtime, and the store does not answer at once.
    NoRuntime,
}

impl fmt::Display for SettlementLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "whether the store has made it is unknown",
            Self::Refused => "the store refuses it",
            Self::GivenUp => "the store has not made it in all attempts",
            Self::QueueFull => "too many others wait",
            Self::NoRuntime => "there is no runtime",
        })
    }
}
