//! The charges of a sliding log.

use portcullis_core::store::{Position, Run};

use super::Model;
use super::ledger::Ledger;

/// The charges with their instants, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    model: Model,
    period: u64,
    charges: Vec<Charge>,
}

#[derive(Clone, Copy, Debug)]
struct Charge {
    at: u64,
    units: u64,
    /// The units of all charges up to this one.
    sum: u64,
}

impl Entries {
    pub(super) fn new(model: Model) -> Self {
        Self { model, period: model.period(), charges: Vec::new() }
    }

    /// Units charged at t count from t until just before t + period.
    fn used(&self, then: u64) -> u64 {
        let gone = self.charges.partition_point(|charge| charge.at + self.period <= then);
        let sum = |count: usize| count.checked_sub(1).map_or(0, |last| self.charges[last].sum);
        sum(self.charges.len()) - sum(gone)
    }

    fn update_sums(&mut self) {
        let mut sum = 0;
        for charge in &mut self.charges {
            sum += charge.units;
            charge.sum = sum;
        }
    }
}

impl Ledger for Entries {
    fn model(&self) -> &Model {
        &self.model
    }

    fn available(&self, then: u64) -> i128 {
        i128::from(self.capacity()) - i128::from(self.used(then))
    }

    fn is_unused(&self, then: u64) -> bool {
        self.used(then) == 0
    }

    fn charge(&mut self, now: u64, units: u64) {
        let sum = self.charges.last().map_or(0, |charge| charge.sum) + units;
        self.charges.push(Charge { at: now, units, sum });
    }

    fn position(&self, now: u64) -> Position {
        Position { micros: now, remainder: 0 }
    }

    /// Units of one instant are interchangeable between charges.
    fn free(&mut self, now: u64, Run { units, position }: Run) {
        let mut left = if position.micros + self.period > now { units } else { 0 };
        for charge in self.charges.iter_mut().filter(|charge| charge.at == position.micros) {
            let taken = charge.units.min(left);
            (charge.units, left) = (charge.units - taken, left - taken);
        }
        self.update_sums();
    }
}
