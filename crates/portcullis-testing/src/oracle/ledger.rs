//! The charges to one key under one policy that still affect decisions.

use std::fmt::Debug;
use std::time::Duration;

use portcullis_core::algorithm::Snapshot;
use portcullis_core::store::{Position, Refund, Run};
use portcullis_core::{Retry, Timestamp};

use super::Model;

/// What an algorithm defines. Every figure of a decision follows from the units that fit at each instant.
///
/// Instants are microseconds since the epoch and do not decrease between charges.
pub(super) trait Ledger: Debug + Send {
    fn model(&self) -> &Model;

    /// The maximum number of units at one instant.
    fn capacity(&self) -> u64 {
        self.model().capacity()
    }

    /// The largest debt in units.
    fn debt(&self) -> u64 {
        self.model().debt()
    }

    /// The number of units that fit at `then` if nothing is charged before, rounded down; negative in debt.
    fn available(&self, then: u64) -> i128;

    /// Whether a cost is admitted at `then` if nothing is charged before: at once or, with a longest wait, with a delay.
    fn admits(&self, then: u64, cost: u64) -> bool {
        self.available(then) >= cost.into()
    }

    /// Whether the charges determine when more units fit, so that a denial has a wait.
    fn knows_waits(&self) -> bool {
        true
    }

    /// Whether decisions at `then` are those of a key that was never charged.
    fn is_unused(&self, then: u64) -> bool;

    fn charge(&mut self, now: u64, units: u64);

    /// The position of the charge made at `now`.
    fn position(&self, now: u64) -> Position;

    /// Frees the units of a run that still count.
    fn free(&mut self, now: u64, run: Run);

    /// Whether nothing was charged after this run. Only rate-based algorithms distinguish this; the others return true.
    fn is_newest(&self, _now: u64, _run: Run) -> bool {
        true
    }

    /// Extends the units of a run that still count, and returns their number. Only permits can be extended.
    fn renew(&mut self, _now: u64, _run: Run) -> u64 {
        0
    }

    fn refund(&mut self, now: u64, refund: Refund<'_>) {
        for run in refund.runs() {
            if !refund.only_newest() || self.is_newest(now, run) {
                self.free(now, run);
            }
        }
    }

    /// Charges units even if they do not fit. Returns the whole units that were charged, and those that the bound of the
    /// debt left uncharged.
    fn force(&mut self, now: u64, units: u64) -> (u64, u64) {
        let available = (self.available(now) + i128::from(self.debt())).max(0);
        let fits = u64::try_from(available).unwrap_or(u64::MAX).min(units);
        self.charge(now, fits);
        (fits, units - fits)
    }

    /// The delay of a request that is admitted at `now` for this cost, behind the requests admitted before.
    fn delay(&self, _now: u64, _cost: u64) -> Duration {
        Duration::ZERO
    }
}

pub(super) fn fits(ledger: &dyn Ledger, now: Timestamp, cost: u64) -> bool {
    cost == 0 || ledger.admits(now.as_micros(), cost)
}

/// The figures of a decision, except its delay.
pub(super) fn snapshot(ledger: &dyn Ledger, now: Timestamp, cost: u64, admitted: bool) -> Snapshot {
    let (now, limit) = (now.as_micros(), ledger.capacity());
    let remaining = |wait: u64| {
        u64::try_from(ledger.available(now + wait).max(0)).expect("no more units fit than the capacity")
    };
    let left = remaining(0);
    let next_after = if left == limit || !ledger.knows_waits() {
        Duration::ZERO
    } else {
        smallest_wait(|wait| remaining(wait) > left)
    };
    let retry = (!admitted).then(|| {
        if cost > limit {
            return Retry::Never;
        }
        if !ledger.knows_waits() {
            return Retry::Unknown;
        }
        Retry::After(smallest_wait(|wait| ledger.admits(now + wait, cost)))
    });
    let reset_after = smallest_wait(|wait| ledger.is_unused(now + wait));
    Snapshot {
        limit,
        remaining: left,
        reset_after,
        next_after,
        retry,
        delay: Duration::ZERO,
        is_blocked: false,
    }
}

/// The smallest wait in whole microseconds for which `holds` is true. It must be true for every longer wait as well.
fn smallest_wait(holds: impl Fn(u64) -> bool) -> Duration {
    if holds(0) {
        return Duration::ZERO;
    }
    let (mut too_short, mut enough) = (0, 1_u64);
    while !holds(enough) {
        (too_short, enough) = (enough, enough * 2);
    }
    while enough - too_short > 1 {
        let between = u64::midpoint(too_short, enough);
        if holds(between) { enough = between } else { too_short = between }
    }
    Duration::from_micros(enough)
}
