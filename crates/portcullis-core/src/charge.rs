//! Charges in a state: their units and their positions.

/// The position of a charge in a state.
///
/// Under a rate-based algorithm (GCRA, token bucket, leaky bucket) this is the instant at which the level right after the
/// charge is replenished completely. Under a window it is the start of the window or of the slot, under a log the stamp,
/// and under a limit on requests in flight the instant at which the state was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct Position {
    /// Whole microseconds since the Unix epoch.
    pub micros: u64,
    /// The fraction beyond them, in units of 1/q microsecond, where q is the denominator of
    /// the rate; 0 for windows and logs. Under a limit on requests in flight the serial number of the last permit of the charge.
    pub remainder: u64,
}

impl Position {
    pub(crate) const fn at(micros: u64) -> Self {
        Self { micros, remainder: 0 }
    }
}

/// Units that were charged at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct Run {
    /// The number of units, at least 1.
    pub units: u64,
    /// The position of the charge.
    pub position: Position,
}
