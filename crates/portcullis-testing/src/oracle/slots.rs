//! The counts of a sliding window.

use std::collections::BTreeMap;

use portcullis_core::store::{Position, Run};

use super::Model;
use super::ledger::Ledger;

/// The units charged in each slot, by the number of the slot since the epoch.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    model: Model,
    width: u64,
    per_period: u64,
    charged: BTreeMap<u64, u64>,
}

impl Slots {
    pub(super) fn new(model: Model, slots: u32) -> Self {
        let width = model.period() / u64::from(slots);
        Self { model, width, per_period: slots.into(), charged: BTreeMap::new() }
    }

    /// The units of the slots that the last period covers in full, including the current slot, plus the remaining share of
    /// the slot before them, rounded down.
    fn used(&self, then: u64) -> i128 {
        let (present, passed) = (then / self.width, then % self.width);
        let covered = self.charged.range((present + 1).saturating_sub(self.per_period)..=present);
        let in_full: i128 = covered.map(|(_, units)| i128::from(*units)).sum();
        let fading =
            present.checked_sub(self.per_period).and_then(|slot| self.charged.get(&slot)).unwrap_or(&0);
        in_full + i128::from(*fading) * i128::from(self.width - passed) / i128::from(self.width)
    }
}

impl Ledger for Slots {
    fn model(&self) -> &Model {
        &self.model
    }

    fn available(&self, then: u64) -> i128 {
        i128::from(self.capacity()) - self.used(then)
    }

    fn is_unused(&self, then: u64) -> bool {
        self.used(then) == 0
    }

    fn charge(&mut self, now: u64, units: u64) {
        let present = now / self.width;
        // Slots that no later period covers are dropped.
        self.charged.retain(|slot, _| slot + self.per_period >= present);
        *self.charged.entry(present).or_default() += units;
    }

    fn position(&self, now: u64) -> Position {
        Position { micros: now - now % self.width, remainder: 0 }
    }

    fn free(&mut self, now: u64, Run { units, position }: Run) {
        let slot = position.micros / self.width;
        if slot + self.per_period >= now / self.width
            && let Some(charged) = self.charged.get_mut(&slot)
        {
            *charged = charged.saturating_sub(units);
        }
    }
}
