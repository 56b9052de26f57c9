//! The permits of a limit on requests in flight.

use portcullis_core::store::{Position, Run};

use super::Model;
use super::ledger::Ledger;

/// All permits that were not released, with those that have expired.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    model: Model,
    lease: u64,
    /// The instant of the first charge after all permits had expired.
    epoch: u64,
    /// The number of permits since then.
    taken: u64,
    /// The latest instant at which one of them expires, or would have if it had not been released.
    end: u64,
    held: Vec<Permit>,
}

#[derive(Clone, Copy, Debug)]
struct Permit {
    epoch: u64,
    number: u64,
    expires: u64,
}

impl Permits {
    pub(super) fn new(model: Model) -> Self {
        Self { model, lease: model.period(), epoch: 0, taken: 0, end: 0, held: Vec::new() }
    }

    fn count(&self, then: u64) -> usize {
        self.held.iter().filter(|permit| permit.expires > then).count()
    }
}

impl Permit {
    fn is_of(&self, Run { units, position }: Run) -> bool {
        // Charges before and after a reset at one instant may have one position, and more units together than there are numbers.
        let after = position.remainder.checked_sub(self.number);
        self.epoch == position.micros && after.is_some_and(|after| after < units)
    }
}

impl Ledger for Permits {
    fn model(&self) -> &Model {
        &self.model
    }

    fn available(&self, then: u64) -> i128 {
        i128::from(self.capacity()) - self.count(then) as i128
    }

    fn knows_waits(&self) -> bool {
        false
    }

    fn is_unused(&self, then: u64) -> bool {
        self.count(then) == 0
    }

    fn charge(&mut self, now: u64, units: u64) {
        if units == 0 {
            return;
        }
        if self.end <= now {
            (self.epoch, self.taken) = (now, 0);
        }
        self.end = now + self.lease;
        for _ in 0..units {
            self.taken += 1;
            self.held.push(Permit { epoch: self.epoch, number: self.taken, expires: self.end });
        }
    }

    fn position(&self, _now: u64) -> Position {
        Position { micros: self.epoch, remainder: self.taken }
    }

    fn free(&mut self, now: u64, run: Run) {
        self.held.retain(|permit| permit.expires > now && !permit.is_of(run));
    }

    fn renew(&mut self, now: u64, run: Run) -> u64 {
        let is_held = |permit: &&mut Permit| permit.expires > now && permit.is_of(run);
        let mut renewed = 0;
        for permit in self.held.iter_mut().filter(is_held) {
            permit.expires = now + self.lease;
            self.end = permit.expires;
            renewed += 1;
        }
        renewed
    }
}
