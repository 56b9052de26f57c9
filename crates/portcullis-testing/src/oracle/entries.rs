//! Every unit with its time.

use super::Model;
use super::ledger::Ledger;

/// What was charged at which instant, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    limit: u32,
    period: u64,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    units: u64,
    /// The units of all entries up to this one.
    sum: u64,
}

impl Entries {
    pub(super) fn new(model: Model) -> Self {
        Self { limit: model.quota.limit(), period: model.period(), entries: Vec::new() }
    }

    /// What was charged at t counts from t until just before t + period.
    fn used(&self, then: u64) -> u64 {
        let gone = self.entries.partition_point(|entry| entry.at + self.period <= then);
        let sum = |count: usize| count.checked_sub(1).map_or(0, |last| self.entries[last].sum);
        sum(self.entries.len()) - sum(gone)
    }

    fn sum_up(&mut self) {
        let mut sum = 0;
        for entry in &mut self.entries {
            sum += entry.units;
            entry.sum = sum;
        }
    }
}

impl Ledger for Entries {
    fn most(&self) -> u32 {
        self.limit
    }

    fn room(&self, then: u64) -> i128 {
        i128::from(self.limit) - i128::from(self.used(then))
    }

    fn is_blank(&self, then: u64) -> bool {
        self.used(then) == 0
    }

    fn charge(&mut self, now: u64, units: u32) {
        let sum = self.entries.last().map_or(0, |entry| entry.sum) + u64::from(units);
        self.entries.push(Entry { at: now, units: units.into(), sum });
    }

    /// Units of one instant are alike, whichever charge they came with.
    fn refund(&mut self, now: u64, charged_at: u64, units: u32) {
        let mut left = if charged_at + self.period > now { u64::from(units) } else { 0 };
        for entry in self.entries.iter_mut().filter(|entry| entry.at == charged_at) {
            let taken = entry.units.min(left);
            (entry.units, left) = (entry.units - taken, left - taken);
        }
        self.sum_up();
    }
}
