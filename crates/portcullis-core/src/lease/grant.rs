//! The units that one call has charged for a lease.

use core::time::Duration;

use smallvec::SmallVec;

use super::MAX_LIFETIME;
use crate::algorithm::Snapshot;
use crate::store::{Position, Run};
use crate::{Key, Policy, Receipt, Strategy, Timestamp};

/// The answer of a store that has charged units for a lease, together with the cost of a request, as one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: callers build it from what their store answers.
pub struct Answer {
    /// The units for the lease, without the request's own cost.
    pub units: u64,
    /// An instant before the call was sent, on the process's clock.
    pub sent: Duration,
    /// The instant of the charge, on the store's clock.
    pub at: Timestamp,
    /// The figures after the charge.
    pub snapshot: Snapshot,
    /// The position of the whole charge.
    pub position: Position,
}

/// A cost that was taken from a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive: callers make a decision of it.
pub struct Spend {
    /// The units, at the position that a refund at the store frees.
    pub run: Run,
    /// The estimated instant on the store's clock: no later than now.
    pub at: Timestamp,
    /// The figures that the store has reported after it charged the whole lease, counted down since.
    pub snapshot: Snapshot,
}

/// Unspent units that the store has to refund.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "units that are not refunded stay charged"]
pub struct Returned {
    /// Sorted by position, lowest first.
    runs: SmallVec<[Run; 2]>,
    at: Timestamp,
}

impl Returned {
    /// The number of units, at least 1.
    pub fn units(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.units))
    }

    /// The units by position, lowest first.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// A receipt for these units. `policy` is that of their charge, even if the quota has changed since.
    pub fn into_receipt(self, policy: Policy, key: Key) -> Receipt {
        let Self { runs, at } = self;
        runs.into_iter().fold(Receipt::blank(policy, key, at), |receipt, run| {
            let cost = receipt.cost();
            receipt.settled(cost, Some(run), at)
        })
    }
}

/// The units of one answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    /// All units of the lease.
    units: u64,
    /// Units that were never spent: those at the end of the charge.
    fresh: u64,
    /// Units that were spent and put back.
    recycled: u64,
    /// The position of the whole charge.
    top: Position,
    at: Timestamp,
    snapshot: Snapshot,
    /// When the answer came.
    answered: Duration,
    until: Duration,
}

impl Grant {
    pub(super) fn new(strategy: &Strategy, answer: Answer, now: Duration) -> Self {
        let Answer { units, sent, at, snapshot, position } = answer;
        let until = sent.saturating_add(lifetime(strategy, position, at));
        Self { units, fresh: units, recycled: 0, top: position, at, snapshot, answered: now, until }
    }

    pub(super) fn is_live(&self, now: Duration) -> bool {
        now < self.until
    }

    pub(super) fn until(&self) -> Duration {
        self.until
    }

    pub(super) fn unspent(&self) -> u64 {
        self.fresh.saturating_add(self.recycled)
    }

    pub(super) fn spend(&mut self, strategy: &Strategy, cost: u64, now: Duration) -> Option<Spend> {
        if cost == 0 || cost > self.unspent() || !self.is_live(now) {
            return None;
        }
        let position = if cost <= self.fresh {
            self.fresh = self.fresh.saturating_sub(cost);
            self.next(strategy)
        } else {
            let again = cost.min(self.recycled);
            self.recycled = self.recycled.saturating_sub(again);
            self.fresh = self.fresh.saturating_sub(cost.saturating_sub(again));
            self.lowest(strategy, cost)
        };
        let (at, snapshot) = self.figures(now);
        Some(Spend { run: Run { units: cost, position }, at, snapshot })
    }

    /// The estimated instant on the store's clock, and the figures of the answer, counted down.
    pub(super) fn figures(&self, now: Duration) -> (Timestamp, Snapshot) {
        // Counted from the answer, not from the call, which would promise the full limit too early.
        let age = now.saturating_sub(self.answered);
        let mut snapshot = self.snapshot.counted_down(age);
        if snapshot.remaining < snapshot.limit {
            snapshot.next_after = snapshot.next_after.max(MICROSECOND);
        }
        (self.at.saturating_add(age), snapshot)
    }

    /// Replaces the figures by those of a later answer.
    pub(super) fn update(&mut self, at: Timestamp, snapshot: Snapshot, now: Duration) {
        if at >= self.at {
            // What is paid from the lease is admitted at once, even if the store has denied the other check.
            self.snapshot = Snapshot { retry: None, delay: Duration::ZERO, ..snapshot };
            (self.at, self.answered) = (at, now);
        }
    }

    /// Takes back units that were spent. Returns whether they belong to this charge.
    pub(super) fn put_back(&mut self, strategy: &Strategy, run: Run) -> bool {
        let Run { units, position } = run;
        if units > self.units.saturating_sub(self.unspent()) {
            return false;
        }
        let is_within = self.lowest(strategy, 0) < position && position <= self.top;
        if position == self.next(strategy) {
            // The last units that were spent. Under a window all positions are the same.
            self.fresh = self.fresh.saturating_add(units);
        } else if is_within {
            self.recycled = self.recycled.saturating_add(units);
        } else {
            return false;
        }
        true
    }

    pub(super) fn into_returned(self, strategy: &Strategy) -> Option<Returned> {
        let recycled = Run { units: self.recycled, position: self.lowest(strategy, self.recycled) };
        let fresh = Run { units: self.fresh, position: self.top };
        let runs: SmallVec<[Run; 2]> = [recycled, fresh].into_iter().filter(|run| run.units > 0).collect();
        (!runs.is_empty()).then_some(Returned { runs, at: self.at })
    }

    /// The position of the newest unit that is not fresh.
    fn next(&self, strategy: &Strategy) -> Position {
        strategy.position_before(self.top, self.fresh)
    }

    /// The position of the first `units` units of the lease.
    fn lowest(&self, strategy: &Strategy, units: u64) -> Position {
        strategy.position_before(self.top, self.units.saturating_sub(units))
    }
}

/// How long units may be in lease that are charged at this instant and position.
fn lifetime(strategy: &Strategy, position: Position, at: Timestamp) -> Duration {
    let window = if let Strategy::FixedWindow(window) = strategy {
        let end = Timestamp::from_micros(position.micros).saturating_add(window.period());
        end.saturating_since(at)
    } else {
        strategy.window()
    };
    window.min(MAX_LIFETIME)
}

const MICROSECOND: Duration = Duration::from_micros(1);
