//! A token bucket with interval refill.

use std::time::Duration;

use portcullis_core::store::{Position, Run};

use super::Model;
use super::ledger::Ledger;
use super::positions::Positions;

/// The tokens of a bucket that is refilled by `limit` at every multiple of the period.
#[derive(Clone, Debug)]
pub(super) struct Refills {
    model: Model,
    refill: i128,
    period: u64,
    /// Negative in debt.
    tokens: i128,
    at: u64,
    /// The tokens of the refills in the longest wait.
    reserved: i128,
    /// The most tokens that a settlement leaves missing beyond an empty bucket.
    deepest: i128,
    positions: Positions,
}

impl Refills {
    pub(super) fn new(model: Model) -> Self {
        let capacity = model.capacity();
        let (refill, period) = (i128::from(model.quota.limit()), model.period());
        let positions = Positions::new(model);
        let reserved = i128::from(model.reserved() / period) * refill;
        let deepest = reserved + model.debt.map_or(i128::from(capacity) + reserved, i128::from);
        Self { model, refill, period, tokens: capacity.into(), at: 0, reserved, deepest, positions }
    }

    fn tokens_at(&self, then: u64) -> i128 {
        let refills = then / self.period - self.at / self.period;
        (self.tokens + i128::from(refills) * self.refill).min(self.capacity().into())
    }

    fn last_refill(&self, now: u64) -> u64 {
        now - now % self.period
    }

    /// The missing tokens as the time in which the rate yields them.
    fn missing(&self, now: u64) -> i128 {
        (i128::from(self.capacity()) - self.tokens_at(now)) * i128::from(self.period)
    }

    fn add(&mut self, now: u64, tokens: i128) {
        self.tokens = (self.tokens_at(now) + tokens).min(self.capacity().into());
        self.at = now;
    }
}

impl Ledger for Refills {
    fn model(&self) -> &Model {
        &self.model
    }

    fn debt(&self) -> u64 {
        u64::try_from(self.deepest).unwrap_or(u64::MAX)
    }

    fn available(&self, then: u64) -> i128 {
        self.tokens_at(then)
    }

    fn admits(&self, then: u64, cost: u64) -> bool {
        cost <= self.capacity() && self.tokens_at(then) + self.reserved >= cost.into()
    }

    fn is_unused(&self, then: u64) -> bool {
        self.tokens_at(then) == self.capacity().into()
    }

    fn charge(&mut self, now: u64, units: u64) {
        self.add(now, -i128::from(units));
    }

    /// The instant at which the missing tokens would be back if they were refilled evenly from the last refill on.
    fn position(&self, now: u64) -> Position {
        self.positions.after(self.last_refill(now), self.missing(now))
    }

    /// Does not free tokens that later refills have already restored.
    fn free(&mut self, now: u64, run: Run) {
        let ahead = self.positions.ahead(run.position, self.last_refill(now)).max(0);
        self.add(now, (ahead / i128::from(self.period)).min(run.units.into()));
    }

    /// Until the first refill after which the bucket has the tokens.
    fn delay(&self, now: u64, cost: u64) -> Duration {
        let missing = (i128::from(cost) - self.tokens_at(now)).max(0);
        let refills = missing.cast_unsigned().div_ceil(self.refill.cast_unsigned());
        let Some(refills) = u64::try_from(refills).ok().filter(|refills| *refills > 0) else {
            return Duration::ZERO;
        };
        Duration::from_micros(self.last_refill(now) + refills * self.period - now)
    }

    fn is_newest(&self, now: u64, run: Run) -> bool {
        self.positions.ahead(run.position, self.last_refill(now)) == self.missing(now)
    }
}
