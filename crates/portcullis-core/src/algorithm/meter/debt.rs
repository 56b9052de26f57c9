//! The levels that a debt reaches, and the ceiling above which only a step of the clock leads.

use core::num::NonZeroU32;

use super::wide::{div_rem, product};
use super::{Meter, Room, Span};
use crate::Quota;
use crate::algorithm::debt::Debt;
use crate::quota::MAX_MICROS;

impl Meter {
    /// The level up to which settlements charge: the [`highest`](Meter::highest) level and the largest
    /// [debt](crate::Policy::allow_debt); without one that was set, twice the highest level.
    pub const fn deepest(&self) -> Span {
        self.span_of(self.deepest_level())
    }

    /// The ceiling in microseconds: a higher level is the result of a step of the clock. At least the
    /// [`deepest`](Meter::deepest) level of each quota that [callers](crate::Policy::caller_quotas) may have; `None` if it is that of
    /// this meter, without a debt that was set.
    pub const fn ceiling(&self) -> Option<u64> {
        if self.debt.is_default() {
            return None;
        }
        Some(match self.debt.ceiling() {
            Some(micros) => micros,
            None => self.deepest_micros(),
        })
    }

    /// The [`deepest`](Meter::deepest) level in whole microseconds, rounded up.
    pub(crate) const fn deepest_micros(&self) -> u64 {
        let Span { micros, remainder } = self.deepest();
        micros.saturating_add((remainder > 0) as u64)
    }

    /// The time in which a unit drains, in whole microseconds, rounded up.
    pub(crate) const fn unit_micros(&self) -> u64 {
        self.interval.get().div_ceil(self.q.get())
    }

    pub(crate) const fn debt(&self) -> Debt {
        self.debt
    }

    /// The most units of debt that can be replenished in 2^51 microseconds.
    pub(crate) const fn max_debt(&self) -> u64 {
        let units = self.units_in(MAX_MICROS);
        if units < Quota::MAX_UNITS { units } else { Quota::MAX_UNITS }
    }

    /// Sets the debt, at most [`max_debt`](Meter::max_debt), and the ceiling, at least the deepest level.
    pub(crate) const fn with_debt(self, debt: Debt) -> Self {
        Self { debt, ..self }.with_room(self.wait())
    }

    pub(super) const fn debt_of_share(&self, instances: NonZeroU32) -> Debt {
        self.debt.share(instances)
    }

    /// Sets what follows from the longest wait, in microseconds.
    #[expect(clippy::arithmetic_side_effects, reason = "a burst and a wait are below 2^115")]
    pub(super) const fn with_room(self, wait: u64) -> Self {
        let highest = self.full() + product(self.q.get(), wait);
        Self { room: Room::new(highest, self.ceiling_above(highest), wait), ..self }
    }

    pub(super) const fn deepest_level(&self) -> u128 {
        self.deepest_above(self.highest_level())
    }

    /// The ceiling in 1/q microseconds.
    pub(super) const fn ceiling_level(&self) -> u128 {
        self.ceiling_above(self.highest_level())
    }

    /// Whether only a step of the clock leads to a level, which is above the highest. A function of its own: only debts lead here.
    #[cold]
    #[inline(never)]
    pub(super) const fn is_above_ceiling(&self, level: u64) -> bool {
        level as u128 > self.ceiling_level()
    }

    #[inline]
    const fn deepest_above(&self, highest: u128) -> u128 {
        match self.debt.units() {
            Some(units) => highest.saturating_add(self.units(units)),
            None => highest.saturating_mul(2),
        }
    }

    #[inline]
    const fn ceiling_above(&self, highest: u128) -> u128 {
        if self.debt.is_default() {
            return highest.saturating_mul(2);
        }
        if let Some(micros) = self.debt.ceiling() {
            return product(self.q.get(), micros);
        }
        let (micros, remainder) = div_rem(self.deepest_above(highest), self.q);
        micros.saturating_add((remainder > 0) as u128).saturating_mul(self.q.get() as u128)
    }
}
