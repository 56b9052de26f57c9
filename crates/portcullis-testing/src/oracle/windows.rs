//! The count of a fixed or a calendar window.

use std::ops::Range;

use portcullis_core::Anchor;
use portcullis_core::store::{Position, Run};

use super::Model;
use super::ledger::Ledger;

/// The units charged in the most recent window with a charge.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    model: Model,
    open: Range<i128>,
    charged: i128,
}

impl Windows {
    pub(super) fn new(model: Model) -> Self {
        Self { model, open: 0..0, charged: 0 }
    }

    fn charged_at(&self, then: u64) -> i128 {
        if i128::from(then) >= self.open.end { 0 } else { self.charged }
    }
}

impl Ledger for Windows {
    fn model(&self) -> &Model {
        &self.model
    }

    fn available(&self, then: u64) -> i128 {
        i128::from(self.capacity()) - self.charged_at(then)
    }

    fn is_unused(&self, then: u64) -> bool {
        self.charged_at(then) == 0
    }

    fn charge(&mut self, now: u64, units: u64) {
        if self.is_unused(now) {
            (self.open, self.charged) = (self.model.window_at(now), 0);
        }
        self.charged += i128::from(units);
    }

    /// The first window may begin before the epoch.
    fn position(&self, _now: u64) -> Position {
        Position { micros: u64::try_from(self.open.start).unwrap_or(0), remainder: 0 }
    }

    fn free(&mut self, now: u64, Run { units, position }: Run) {
        if !self.is_unused(now) && i128::from(position.micros) >= self.open.start {
            self.charged = (self.charged - i128::from(units)).max(0);
        }
    }
}

/// The start of the window that a charge at `now` opens if no window is open.
pub(super) fn window_start(anchor: Anchor, period: u64, now: u64) -> i128 {
    let now = i128::from(now);
    let origin = match anchor {
        Anchor::Epoch => 0,
        Anchor::Instant(instant) => i128::from(instant.as_micros()),
        Anchor::FirstRequest => return now,
    };
    now - (now - origin).rem_euclid(i128::from(period))
}
