//! The charges in the region that a process can still have credited.

use portcullis_core::store::{Position, Run};
use portcullis_core::{Key, Policy, Receipt, Strategy, Timestamp};
use smallvec::SmallVec;

/// The charges of one key that a process has made in its region and that are not moved to home.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    kind: Kind,
    /// Sorted by position, lowest first.
    runs: SmallVec<[Run; 2]>,
}

/// What becomes of charges at several positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// At a rate, one run at the latest position: a refund frees the level below it as well.
    Level,
    /// Only the latest window counts.
    Window,
    /// A refund frees what has exactly this position, in a slot or in a log.
    Each,
}

impl Held {
    /// The most positions: those of one receipt.
    const MAX_RUNS: usize = Receipt::MAX_RUNS;

    pub(crate) fn new(strategy: &Strategy) -> Self {
        Self { kind: Kind::of(strategy), runs: SmallVec::new() }
    }

    pub(crate) fn units(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.units))
    }

    /// Adds a charge. `most` is the highest number of units that the state can have. Returns whether it is the first of a new window.
    pub(crate) fn add(&mut self, run: Run, most: u64) -> bool {
        let is_new_window =
            self.kind == Kind::Window && self.runs.last().is_none_or(|held| held.position < run.position);
        match (self.kind, self.runs.last_mut()) {
            (Kind::Level, Some(held)) => {
                held.units = held.units.saturating_add(run.units).min(most);
                held.position = held.position.max(run.position);
            }
            (Kind::Window, Some(held)) if run.position == held.position => {
                held.units = held.units.saturating_add(run.units).min(most);
            }
            // A charge of an earlier window, whose answer came late.
            (Kind::Window, Some(held)) if run.position < held.position => {}
            (Kind::Window | Kind::Level, _) => {
                self.runs.clear();
                self.runs.push(run);
            }
            (Kind::Each, _) => self.insert(run),
        }
        is_new_window
    }

    fn insert(&mut self, run: Run) {
        let index = self.runs.partition_point(|held| held.position < run.position);
        if let Some(held) = self.runs.get_mut(index).filter(|held| held.position == run.position) {
            held.units = held.units.saturating_add(run.units);
            return;
        }
        self.runs.insert(index, run);
        if self.runs.len() > Self::MAX_RUNS {
            self.runs.remove(0);
        }
    }

    /// Has at least `units` of the window that begins at `position`, even if other processes have charged them: a refund of a window
    /// frees its count. Does nothing under other strategies, whose charges are refunded one by one or are replenished.
    pub(crate) fn hold_at_least(&mut self, units: u64, position: Position) {
        if self.kind == Kind::Window && self.units() < units && position > Position::default() {
            self.runs.clear();
            self.runs.push(Run { units, position });
        }
    }

    /// Forgets the newest units, which were refunded.
    pub(crate) fn forget(&mut self, units: u64) {
        self.take(units);
    }

    /// Takes the newest units.
    pub(crate) fn take(&mut self, units: u64) -> SmallVec<[Run; 2]> {
        let mut taken = SmallVec::new();
        let mut left = units;
        while left > 0
            && let Some(newest) = self.runs.last_mut()
        {
            let units = newest.units.min(left);
            taken.insert(0, Run { units, position: newest.position });
            left = left.saturating_sub(units);
            newest.units = newest.units.saturating_sub(units);
            if newest.units == 0 {
                self.runs.pop();
            }
        }
        taken
    }
}

impl Kind {
    fn of(strategy: &Strategy) -> Self {
        match strategy {
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => Self::Level,
            Strategy::FixedWindow(_) | Strategy::CalendarWindow(_) => Self::Window,
            Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) | Strategy::InFlight(_) => Self::Each,
        }
    }
}

/// A receipt for charges under the region's share.
pub(crate) fn receipt(share: Policy, key: Key, runs: &[Run]) -> Receipt {
    let at = Timestamp::EPOCH;
    runs.iter().fold(Receipt::blank(share, key, at), |receipt, run| {
        let cost = receipt.cost();
        receipt.settled(cost, Some(*run), at)
    })
}

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota};

    use super::*;

    fn run(units: u64, micros: u64) -> Run {
        Run { units, position: Position { micros, remainder: 0 } }
    }

    fn held(policy: &Policy, charges: &[(u64, u64)]) -> Held {
        let mut held = Held::new(policy.strategy());
        for (units, micros) in charges {
            held.add(run(*units, *micros), 100);
        }
        held
    }

    #[test]
    fn charges_at_a_rate_are_one_run() {
        let mut held = held(&Policy::gcra("a", Quota::per_second(1).burst(9)), &[(3, 10), (4, 30), (2, 20)]);
        assert_eq!(held.take(5).as_slice(), [run(5, 30)]);
        assert_eq!(held.units(), 4);
    }

    #[test]
    fn only_the_latest_window_is_held() {
        let window = Policy::fixed_window("a", Quota::per_second(1));
        let mut held = held(&window, &[(3, 10), (4, 10), (60, 20), (2, 10), (60, 20)]);
        assert_eq!(held.units(), 100);
        held.hold_at_least(7, run(1, 30).position);
        assert_eq!(held.units(), 100);
        held.forget(98);
        held.hold_at_least(7, run(1, 30).position);
        assert_eq!(held.take(9).as_slice(), [run(7, 30)]);
    }

    #[test]
    fn each_stamp_of_a_log_is_held_up_to_a_bound() {
        let log = Policy::sliding_log("a", Quota::per_second(1));
        let mut held = held(&log, &[(3, 10), (4, 30), (2, 20), (1, 30)]);
        held.hold_at_least(99, run(1, 40).position);
        assert_eq!(held.take(6).as_slice(), [run(1, 20), run(5, 30)]);
        for micros in 100..200 {
            held.add(run(1, micros), 100);
        }
        assert_eq!(held.units(), 64);
        let receipt = receipt(log, Key::from_fingerprints(1, 1, 1), &held.take(64));
        assert_eq!((receipt.cost(), receipt.runs().len()), (64, 64));
    }
}
