//! The level of a meter, from its log.

use std::time::Duration;

use portcullis_core::{Report, Retry, Timestamp};

use super::Model;
use super::ledger::smallest;

/// The level in units is a fraction over the period: one unit is `period`, one microsecond drains `limit`.
///
/// By definition it is folded over the log: `max(0, level - time * limit / period) + cost` per entry. The log itself need not
/// be kept.
#[derive(Clone, Debug)]
pub(super) struct MeterLog {
    burst: u32,
    unit: i128,
    drained_per_micro: i128,
    level: i128,
    at: Timestamp,
}

impl MeterLog {
    pub(super) fn new(model: Model) -> Self {
        Self {
            burst: model.most_at_once(),
            unit: model.period().into(),
            drained_per_micro: model.quota.limit().into(),
            level: 0,
            at: Timestamp::EPOCH,
        }
    }

    pub(super) fn fits(&self, now: Timestamp, cost: u32) -> bool {
        self.fits_on(self.level_at(now), cost)
    }

    pub(super) fn charge(&mut self, now: Timestamp, cost: u32) {
        self.add(now, self.units(cost));
    }

    pub(super) fn refund(&mut self, now: Timestamp, cost: u32) {
        self.add(now, -self.units(cost));
    }

    pub(super) fn force(&mut self, now: Timestamp, cost: u32) -> u32 {
        let deepest = 2 * self.units(self.burst);
        let beyond = (self.level_at(now) + self.units(cost) - deepest).max(0);
        self.add(now, self.units(cost) - beyond);
        u32::try_from(beyond / self.unit).expect("no more is left out than was to be charged")
    }

    pub(super) fn report(&self, now: Timestamp, cost: u32, admitted: bool) -> Report {
        let level = self.level_at(now);
        let remaining = self.remaining(level);
        let next_after = if remaining == self.burst {
            Duration::ZERO
        } else {
            let wait = self.wait_for(level, self.units(self.burst - remaining - 1));
            smallest(wait, |wait| self.remaining(self.after(level, wait)) > remaining)
        };
        let retry = (!admitted).then(|| {
            if cost > self.burst {
                return Retry::Never;
            }
            let wait = self.wait_for(level, self.units(self.burst - cost));
            Retry::After(smallest(wait, |wait| self.fits_on(self.after(level, wait), cost)))
        });
        let reset_after = smallest(self.wait_for(level, 0), |wait| self.after(level, wait) == 0);
        Report { limit: self.burst, remaining, reset_after, next_after, retry, delay: Duration::ZERO }
    }

    fn add(&mut self, now: Timestamp, units: i128) {
        self.level = (self.level_at(now) + units).max(0);
        self.at = now;
    }

    fn level_at(&self, now: Timestamp) -> i128 {
        let time = now.as_micros().checked_sub(self.at.as_micros()).expect("time does not go backwards");
        self.after(self.level, time)
    }

    fn after(&self, level: i128, micros: u64) -> i128 {
        (level - i128::from(micros) * self.drained_per_micro).max(0)
    }

    fn units(&self, cost: u32) -> i128 {
        i128::from(cost) * self.unit
    }

    fn fits_on(&self, level: i128, cost: u32) -> bool {
        level + self.units(cost) <= self.units(self.burst)
    }

    fn remaining(&self, level: i128) -> u32 {
        u32::try_from((self.units(self.burst) - level).max(0) / self.unit).expect("at most the burst")
    }

    /// Until the level has sunk to `lower`.
    fn wait_for(&self, level: i128, lower: i128) -> u64 {
        let drain = (level - lower).max(0).cast_unsigned();
        let micros = drain.div_ceil(self.drained_per_micro.cast_unsigned());
        u64::try_from(micros).expect("a quota bounds its time to full")
    }
}
