//! Tokens that come by the handful.

use super::Model;
use super::ledger::Ledger;

/// The tokens of a bucket, into which somebody puts `limit` at every multiple of the period.
#[derive(Clone, Debug)]
pub(super) struct Refills {
    capacity: u32,
    handful: i128,
    period: u64,
    /// Negative in debt.
    tokens: i128,
    at: u64,
}

impl Refills {
    pub(super) fn new(model: Model) -> Self {
        let capacity = model.most_at_once();
        let (handful, period) = (model.quota.limit().into(), model.period());
        Self { capacity, handful, period, tokens: capacity.into(), at: 0 }
    }

    fn tokens_at(&self, then: u64) -> i128 {
        let handfuls = then / self.period - self.at / self.period;
        (self.tokens + i128::from(handfuls) * self.handful).min(self.capacity.into())
    }

    fn add(&mut self, now: u64, tokens: i128) {
        self.tokens = (self.tokens_at(now) + tokens).min(self.capacity.into());
        self.at = now;
    }
}

impl Ledger for Refills {
    fn most(&self) -> u32 {
        self.capacity
    }

    fn room(&self, then: u64) -> i128 {
        self.tokens_at(then)
    }

    fn is_blank(&self, then: u64) -> bool {
        self.tokens_at(then) == self.capacity.into()
    }

    fn charge(&mut self, now: u64, units: u32) {
        self.add(now, -i128::from(units));
    }

    fn refund(&mut self, now: u64, _charged_at: u64, units: u32) {
        self.add(now, units.into());
    }
}
