//! The count of a window.

use portcullis_core::{Anchor, Position, Run};

use super::Model;
use super::ledger::Ledger;

/// What was charged in the last window that anything was charged in.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    limit: u32,
    period: u64,
    anchor: Anchor,
    begin: i128,
    charged: i128,
}

impl Windows {
    pub(super) fn new(model: Model, anchor: Anchor) -> Self {
        Self { limit: model.quota.limit(), period: model.period(), anchor, begin: 0, charged: 0 }
    }

    fn charged_at(&self, then: u64) -> i128 {
        let has_ended = i128::from(then) >= self.begin + i128::from(self.period);
        if has_ended { 0 } else { self.charged }
    }
}

impl Ledger for Windows {
    fn most(&self) -> u32 {
        self.limit
    }

    fn room(&self, then: u64) -> i128 {
        i128::from(self.limit) - self.charged_at(then)
    }

    fn is_blank(&self, then: u64) -> bool {
        self.charged_at(then) == 0
    }

    fn charge(&mut self, now: u64, units: u32) {
        if self.is_blank(now) {
            (self.begin, self.charged) = (begin_of_window(self.anchor, self.period, now), 0);
        }
        self.charged += i128::from(units);
    }

    /// The first window of all may have begun before time did.
    fn position(&self, _now: u64) -> Position {
        Position { micros: u64::try_from(self.begin).unwrap_or(0), remainder: 0 }
    }

    fn free(&mut self, now: u64, Run { units, position }: Run) {
        if !self.is_blank(now) && i128::from(position.micros) >= self.begin {
            self.charged = (self.charged - i128::from(units)).max(0);
        }
    }
}

/// The beginning of the window that a charge at `now` belongs to, if none lives.
pub(super) fn begin_of_window(anchor: Anchor, period: u64, now: u64) -> i128 {
    let now = i128::from(now);
    let origin = match anchor {
        Anchor::Epoch => 0,
        Anchor::Instant(instant) => i128::from(instant.as_micros()),
        Anchor::FirstRequest => return now,
    };
    now - (now - origin).rem_euclid(i128::from(period))
}
