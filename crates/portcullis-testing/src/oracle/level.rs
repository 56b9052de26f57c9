//! The level of the rate-based algorithms: greedy token bucket, GCRA and leaky bucket.

use std::time::Duration;

use portcullis_core::store::{Position, Run};

use super::ledger::Ledger;
use super::positions::Positions;
use super::{Kind, Model};

/// The level is a fraction over the period: one unit is `period`, and one microsecond drains `limit`.
///
/// By definition the level is a fold over the log, `max(0, level - time * limit / period) + cost` per entry, so the log itself
/// is not kept.
#[derive(Clone, Debug)]
pub(super) struct Level {
    model: Model,
    unit: i128,
    drained_per_micro: i128,
    filled: i128,
    at: u64,
    /// What drains in the longest wait.
    reserved: i128,
    /// The highest level to which a settlement charges: the highest and the largest debt.
    deepest: i128,
    positions: Positions,
}

impl Level {
    pub(super) fn new(model: Model) -> Self {
        let (unit, reserved) =
            (i128::from(model.period()), i128::from(model.reserved()) * i128::from(model.quota.limit()));
        let highest = i128::from(model.capacity()) * unit + reserved;
        Self {
            model,
            unit,
            drained_per_micro: model.quota.limit().into(),
            filled: 0,
            at: 0,
            reserved,
            deepest: model.debt.map_or(2 * highest, |units| highest + i128::from(units) * unit),
            positions: Positions::new(model),
        }
    }

    fn add(&mut self, now: u64, level: i128) {
        self.filled = (self.level_at(now) + level).max(0);
        self.at = now;
    }

    fn level_at(&self, then: u64) -> i128 {
        let time = then.checked_sub(self.at).expect("time does not go backwards");
        (self.filled - i128::from(time) * self.drained_per_micro).max(0)
    }

    fn full(&self) -> i128 {
        i128::from(self.model.capacity()) * self.unit
    }

    /// The highest level at which a cost is admitted.
    fn highest(&self) -> i128 {
        self.full() + self.reserved
    }
}

impl Ledger for Level {
    fn model(&self) -> &Model {
        &self.model
    }

    /// In whole units; the bound itself is a level.
    fn debt(&self) -> u64 {
        u64::try_from((self.deepest - self.full()) / self.unit).unwrap_or(u64::MAX)
    }

    fn available(&self, then: u64) -> i128 {
        (self.full() - self.level_at(then)).div_euclid(self.unit)
    }

    fn admits(&self, then: u64, cost: u64) -> bool {
        cost <= self.capacity() && self.level_at(then) + i128::from(cost) * self.unit <= self.highest()
    }

    fn is_unused(&self, then: u64) -> bool {
        self.level_at(then) == 0
    }

    fn charge(&mut self, now: u64, units: u64) {
        self.add(now, i128::from(units) * self.unit);
    }

    fn position(&self, now: u64) -> Position {
        self.positions.after(now, self.level_at(now))
    }

    /// Does not free the part of a charge that is replenished: a charge occupies the level up to its end.
    fn free(&mut self, now: u64, run: Run) {
        let left = self.positions.ahead(run.position, now).clamp(0, i128::from(run.units) * self.unit);
        self.add(now, -left);
    }

    fn is_newest(&self, now: u64, run: Run) -> bool {
        self.positions.ahead(run.position, now) == self.level_at(now)
    }

    fn force(&mut self, now: u64, units: u64) -> (u64, u64) {
        let asked = i128::from(units) * self.unit;
        let beyond = (self.level_at(now) + asked - self.deepest).max(0);
        self.add(now, asked - beyond);
        let whole = |level: i128| u64::try_from(level / self.unit).expect("at most the units to charge");
        (whole(asked - beyond), whole(beyond))
    }

    /// In the queue of a leaky bucket a request waits for all requests before it; else until its own units fit the burst.
    fn delay(&self, now: u64, cost: u64) -> Duration {
        let own = i128::from(cost) * self.unit;
        let before = if self.model.kind == Kind::LeakyBucket { 0 } else { own - self.full() };
        let ahead = (self.level_at(now) + before).max(0);
        let drained = ahead.cast_unsigned().div_ceil(self.drained_per_micro.cast_unsigned());
        Duration::from_micros(u64::try_from(drained).expect("a quota bounds its time to full"))
    }
}
