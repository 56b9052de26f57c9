//! What was charged to one key under one policy, as far as it still matters.

use std::fmt::Debug;
use std::time::Duration;

use portcullis_core::{Position, Refund, Retry, Run, Snapshot, Timestamp};

use super::entries::Entries;
use super::level::Level;
use super::refills::Refills;
use super::slots::Slots;
use super::windows::Windows;
use super::{Kind, Model};

/// What an algorithm has to say of itself: all that a decision says follows from what fits at which instant.
///
/// Instants are microseconds since the epoch and never go backwards from one charge to the next.
pub(super) trait Ledger: Debug + Send {
    /// The most units at one instant.
    fn most(&self) -> u32;

    /// How many units would fit at `then` if nobody came before, rounded down; negative in debt.
    fn room(&self, then: u64) -> i128;

    /// Whether everything at `then` is as if nobody had ever come.
    fn is_blank(&self, then: u64) -> bool;

    fn charge(&mut self, now: u64, units: u32);

    /// Where what was charged last at `now` stands.
    fn position(&self, now: u64) -> Position;

    /// Frees a run, as far as it still counts.
    fn free(&mut self, now: u64, run: Run);

    /// Whether nothing was charged after this run: it is asked of those that reserve a place in a line.
    fn is_newest(&self, _now: u64, _run: Run) -> bool {
        true
    }

    fn refund(&mut self, now: u64, refund: Refund<'_>) {
        for run in refund.runs() {
            if !refund.is_if_newest() || self.is_newest(now, run) {
                self.free(now, run);
            }
        }
    }

    /// Charges whether it fits or not, and returns the whole units that were charged, and those that the end of the debt
    /// left out.
    fn force(&mut self, now: u64, units: u32) -> (u32, u32) {
        let room = (self.room(now) + i128::from(self.most())).max(0);
        let fits = u32::try_from(room).unwrap_or(u32::MAX).min(units);
        self.charge(now, fits);
        (fits, units - fits)
    }

    /// How long a request that is admitted now has to wait for what was admitted before.
    fn delay(&self, _now: u64) -> Duration {
        Duration::ZERO
    }
}

/// The ledger of a key that nobody has charged yet.
pub(super) fn blank(model: Model) -> Box<dyn Ledger> {
    match model.kind {
        Kind::Tokens | Kind::Spacing | Kind::Queue => Box::new(Level::new(model)),
        Kind::Refills => Box::new(Refills::new(model)),
        Kind::Windows(anchor) => Box::new(Windows::new(model, anchor)),
        Kind::Slots(slots) => Box::new(Slots::new(model, slots)),
        Kind::Entries => Box::new(Entries::new(model)),
    }
}

pub(super) fn fits(ledger: &dyn Ledger, now: Timestamp, cost: u32) -> bool {
    cost == 0 || ledger.room(now.as_micros()) >= cost.into()
}

/// What a decision says, but for its delay.
pub(super) fn snapshot(ledger: &dyn Ledger, now: Timestamp, cost: u32, admitted: bool) -> Snapshot {
    let (now, limit) = (now.as_micros(), ledger.most());
    let remaining = |wait: u64| {
        u32::try_from(ledger.room(now + wait).max(0)).expect("no more fits than ever fits at once")
    };
    let left = remaining(0);
    let next_after =
        if left == limit { Duration::ZERO } else { smallest_wait(|wait| remaining(wait) > left) };
    let retry = (!admitted).then(|| {
        if cost > limit {
            return Retry::Never;
        }
        Retry::After(smallest_wait(|wait| ledger.room(now + wait) >= cost.into()))
    });
    let reset_after = smallest_wait(|wait| ledger.is_blank(now + wait));
    Snapshot { limit, remaining: left, reset_after, next_after, retry, delay: Duration::ZERO }
}

/// The smallest wait in whole microseconds that does, where every longer one does too.
fn smallest_wait(does: impl Fn(u64) -> bool) -> Duration {
    if does(0) {
        return Duration::ZERO;
    }
    let (mut too_short, mut enough) = (0, 1_u64);
    while !does(enough) {
        (too_short, enough) = (enough, enough * 2);
    }
    while enough - too_short > 1 {
        let between = u64::midpoint(too_short, enough);
        if does(between) { enough = between } else { too_short = between }
    }
    Duration::from_micros(enough)
}
