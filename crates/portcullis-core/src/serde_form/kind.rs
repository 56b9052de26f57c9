//! The kinds of strategies by name.

use alloc::string::String;

use super::values::{list, one_of};
use crate::Strategy;

/// The kind of a strategy whose parameters are not known yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    TokenBucket,
    Gcra,
    LeakyBucket,
    FixedWindow,
    CalendarWindow,
    SlidingWindow,
    SlidingLog,
    InFlight,
}

impl Kind {
    pub(super) fn named(text: &str) -> Result<Self, String> {
        one_of("strategy", text, &KINDS)
    }

    /// The kind of a strategy. A new strategy does not compile until it has a kind here, which is read as well.
    pub(super) const fn of(strategy: &Strategy) -> Self {
        match strategy {
            Strategy::TokenBucket(_) => Self::TokenBucket,
            Strategy::Gcra(_) => Self::Gcra,
            Strategy::LeakyBucket(_) => Self::LeakyBucket,
            Strategy::FixedWindow(_) => Self::FixedWindow,
            Strategy::CalendarWindow(_) => Self::CalendarWindow,
            Strategy::SlidingWindow(_) => Self::SlidingWindow,
            Strategy::SlidingLog(_) => Self::SlidingLog,
            Strategy::InFlight(_) => Self::InFlight,
        }
    }

    /// The names of all kinds, for an error.
    pub(super) fn names() -> String {
        list(KINDS.iter().map(|(name, _)| *name))
    }

    /// The [tag](crate::Strategy::tag) of the strategy.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky_bucket",
            Self::FixedWindow => "fixed_window",
            Self::CalendarWindow => "calendar_window",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingLog => "sliding_log",
            Self::InFlight => "in_flight",
        }
    }
}

const KINDS: [(&str, Kind); 8] = [
    (Kind::TokenBucket.name(), Kind::TokenBucket),
    (Kind::Gcra.name(), Kind::Gcra),
    (Kind::LeakyBucket.name(), Kind::LeakyBucket),
    (Kind::FixedWindow.name(), Kind::FixedWindow),
    (Kind::CalendarWindow.name(), Kind::CalendarWindow),
    (Kind::SlidingWindow.name(), Kind::SlidingWindow),
    (Kind::SlidingLog.name(), Kind::SlidingLog),
    (Kind::InFlight.name(), Kind::InFlight),
];
