//! The decisions of a meter in 64 bits, for bursts that fit.

use core::num::NonZeroU64;

use super::wide::div_rem_narrow;
use super::{Meter, Tat};
use crate::Timestamp;
use crate::algorithm::{Evaluation, Figures, answer};

/// A meter with a highest level of at most a quarter of 2^64 and a ceiling of at most half, in 1/q microseconds: nearly all quotas
/// have them. Every level that it decides on is at most the sum of the two, so that no sum overflows. It decides exactly as the meter does in 128 bits.
#[derive(Clone, Copy)]
pub(super) struct Narrow<'m> {
    meter: &'m Meter,
    /// The highest level at which a cost is admitted, in 1/q microseconds: at least that of a full meter.
    highest: u64,
}

/// A level at an instant.
#[derive(Clone, Copy)]
pub(super) struct LevelAt {
    /// In 1/q microseconds, at most the ceiling.
    level: u64,
    /// The level in whole microseconds, rounded up.
    micros: u64,
    /// Whether a clock step had to be repaired.
    repair: bool,
}

impl<'m> Narrow<'m> {
    #[inline]
    pub(super) fn of(meter: &'m Meter) -> Option<Self> {
        let highest = meter.room.narrow()?;
        Some(Self { meter, highest })
    }

    #[inline]
    pub(super) fn evaluate(self, LevelAt { level, repair, .. }: LevelAt, cost: u64) -> Evaluation {
        let fits = || cost <= self.meter.burst && level.wrapping_add(self.units(cost)) <= self.highest;
        Evaluation { admitted: cost == 0 || fits(), repair }
    }

    /// The state after a charge of `units`, at most the burst.
    #[inline]
    pub(super) fn charged(self, before: LevelAt, now: Timestamp, units: u64) -> Option<Tat> {
        let level = before.level.wrapping_add(self.units(units));
        if level == 0 {
            return None;
        }
        let (micros, remainder) = div_rem_narrow(level, self.meter.q);
        Some(Tat { micros: self.meter.tick(now).saturating_add(micros), remainder })
    }

    /// The figures of a decision; `queues` is whether an admitted cost waits for all costs before it.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "figures that are returned through memory take longer to read than to compute"
    )]
    pub(super) fn figures(
        self,
        state: Option<&Tat>,
        now: Timestamp,
        cost: u64,
        admitted: bool,
        queues: bool,
    ) -> Figures {
        let meter = self.meter;
        let full = self.units(meter.burst);
        let LevelAt { level, micros, .. } = self.level(state, now);
        let wait = |micros| meter.wait_for_micros(micros, now);
        let (remaining, rest) = div_rem_narrow(full.saturating_sub(level), meter.interval);
        let next_after = if remaining == meter.burst {
            0
        } else {
            // What another unit needs, and a debt.
            let needed = meter.interval.get().wrapping_sub(rest);
            wait(ceil(needed.wrapping_add(level.saturating_sub(full)), meter.q))
        };
        let (answer, denied) = answer(admitted, cost, meter.burst, || {
            wait(ceil(level.saturating_sub(self.highest.wrapping_sub(self.units(cost))), meter.q))
        });
        let at_once = if queues { meter.interval.get().saturating_mul(cost) } else { full };
        let delay = if admitted && cost > 0 && level > at_once {
            wait(ceil(level.wrapping_sub(at_once), meter.q))
        } else {
            0
        };
        Figures {
            limit: meter.burst,
            remaining,
            reset_after: wait(micros),
            next_after,
            // One of the two is zero.
            wait: denied.max(delay),
            answer,
        }
    }

    /// See [`Meter::level`].
    #[inline]
    pub(super) fn level(self, state: Option<&Tat>, now: Timestamp) -> LevelAt {
        let none = LevelAt { level: 0, micros: 0, repair: false };
        let Some(tat) = state else { return none };
        let (micros, remainder) = self.meter.in_own_units(tat.micros, tat.remainder);
        let Some(ahead) = micros.checked_sub(self.meter.tick(now)) else { return none };
        let level = ahead.checked_mul(self.meter.denominator());
        match level.and_then(|level| level.checked_add(remainder)) {
            Some(level) if level <= self.highest || !self.meter.is_above_ceiling(level) => {
                LevelAt { level, micros: ahead.wrapping_add(u64::from(remainder > 0)), repair: false }
            }
            // A level of more than 2^64 also is one that charges cannot reach.
            _ => LevelAt { level: self.highest, micros: ceil(self.highest, self.meter.q), repair: true },
        }
    }

    /// The level that `count` units make, at most the burst.
    #[inline]
    fn units(self, count: u64) -> u64 {
        self.meter.interval.get().wrapping_mul(count)
    }
}

/// A length in whole microseconds, rounded up.
#[inline]
fn ceil(length: u64, q: NonZeroU64) -> u64 {
    let (micros, remainder) = div_rem_narrow(length, q);
    micros.saturating_add(u64::from(remainder > 0))
}
