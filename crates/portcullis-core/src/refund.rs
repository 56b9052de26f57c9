//! What a refund frees.

use crate::charge::Run;

/// What a refund, or a settlement to a lower cost, frees in a state: the newest units of some [runs](Run).
///
/// Stores get it from [`Receipt::refund_to`](crate::Receipt::refund_to) and pass it to
/// [`Strategy::refund`](crate::Strategy::refund).
///
/// ```
/// use portcullis::store::{Position, Refund, Run};
/// use portcullis::{Policy, Quota, Timestamp};
///
/// let pages = Policy::gcra("pages", Quota::per_second(1).burst(5));
/// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
/// let mut state = None;
/// pages.strategy().charge(&mut state, at(0), 3);
/// let run = Run { units: 3, position: pages.strategy().position(state.as_ref(), at(0)) };
/// assert_eq!(run.position, Position { micros: 3_000_000, remainder: 0 });
///
/// // After two seconds one of the three units is left to refund.
/// let runs = [run];
/// assert!(pages.strategy().refund(&mut state, at(2), Refund::of(&runs)));
/// assert_eq!(pages.strategy().snapshot(state.as_ref(), at(2), 0, true).remaining, 5);
/// assert!(!pages.strategy().refund(&mut state, at(3), Refund::of(&runs)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refund<'r> {
    /// Sorted by position, lowest first.
    runs: &'r [Run],
    max_units: u64,
    only_newest: bool,
}

impl<'r> Refund<'r> {
    /// All units of `runs`, which are sorted by position, lowest first.
    pub const fn of(runs: &'r [Run]) -> Self {
        Self { runs, max_units: u64::MAX, only_newest: false }
    }

    /// At most this number of units, the newest ones.
    #[must_use]
    pub const fn at_most(self, units: u64) -> Self {
        Self { max_units: units, ..self }
    }

    /// Frees a run only if no later charge builds on it. See [`Receipt::if_newest`](crate::Receipt::if_newest).
    #[must_use]
    pub const fn if_newest(self) -> Self {
        Self { only_newest: true, ..self }
    }

    /// Whether a run stays charged if a later charge builds on it.
    pub const fn only_newest(&self) -> bool {
        self.only_newest
    }

    /// The runs to free, newest first. The last one may be a part of the units that were charged at its position.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'r> {
        let mut left = self.max_units;
        self.runs.iter().rev().map_while(move |run| {
            let units = run.units.min(left);
            left = left.saturating_sub(units);
            (units > 0).then_some(Run { units, ..*run })
        })
    }
}
