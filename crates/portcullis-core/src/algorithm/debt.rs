//! The largest debt that a settlement may leave, and the ceiling of a level.

use core::num::NonZeroU32;

use crate::Quota;

/// The largest debt in units, and the ceiling that all quotas of a policy share, in one word.
///
/// The ceiling is kept as a number of 8 bits times a power of two, rounded up by less than 2 %: it only bounds what a
/// step of the clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Debt(u64);

impl Debt {
    /// One burst (limit), and a ceiling for one quota alone.
    pub(crate) const DEFAULT: Self = Self(0);

    /// The default for a quota. Under one of zero or none a level that another quota has left stays.
    pub(crate) const fn of(quota: Quota) -> Self {
        if quota.is_zero() || quota.is_unlimited() {
            Self::DEFAULT.with_ceiling(MAX_CEILING)
        } else {
            Self::DEFAULT
        }
    }

    /// Sets the largest debt to this number of units, at most [`Quota::MAX_UNITS`].
    pub(crate) const fn with_units(self, units: u64) -> Self {
        let units = if units < Quota::MAX_UNITS { units } else { Quota::MAX_UNITS };
        Self((self.0 & !UNITS) | units.saturating_add(1))
    }

    /// Sets the ceiling, in microseconds: from 1 to 2^52.
    pub(crate) const fn with_ceiling(self, micros: u64) -> Self {
        let micros = if micros > MAX_CEILING { MAX_CEILING } else { micros };
        let exponent = u64::BITS.saturating_sub(micros.leading_zeros()).saturating_sub(MANTISSA_BITS);
        let mantissa = micros.div_ceil(1 << exponent);
        Self((self.0 & UNITS) | ((exponent as u64) << EXPONENT_AT) | (mantissa << MANTISSA_AT))
    }

    /// Sets the ceiling to that of another debt, if that has one.
    pub(crate) const fn with_ceiling_of(self, other: Self) -> Self {
        Self((self.0 & UNITS) | (other.0 & !UNITS))
    }

    /// The largest debt in units; `None` for one burst (limit).
    pub(crate) const fn units(self) -> Option<u64> {
        (self.0 & UNITS).checked_sub(1)
    }

    /// The ceiling in microseconds, if all quotas of a policy share it.
    pub(crate) const fn ceiling(self) -> Option<u64> {
        match self.0 >> MANTISSA_AT {
            0 => None,
            mantissa => Some(mantissa << ((self.0 >> EXPONENT_AT) & MAX_EXPONENT)),
        }
    }

    #[inline]
    pub(crate) const fn is_default(self) -> bool {
        self.0 == 0
    }

    /// The debt of one of `instances`, without a ceiling.
    #[expect(clippy::arithmetic_side_effects, reason = "instances are never zero")]
    pub(crate) const fn share(self, instances: NonZeroU32) -> Self {
        match self.units() {
            Some(units) => Self::DEFAULT.with_units(units / instances.get() as u64),
            None => Self::DEFAULT,
        }
    }

    /// The most units that a window or log with this limit holds.
    #[inline]
    pub(crate) const fn beyond(self, limit: u64) -> u64 {
        match self.units() {
            Some(units) => limit.saturating_add(units),
            None => limit.saturating_mul(2),
        }
    }
}

/// Gives an algorithm that counts units its debt; `most` is the highest limit.
macro_rules! impl_debt {
    ($algorithm:ident, $most:expr) => {
        impl $algorithm {
            pub(crate) const fn debt(&self) -> Debt {
                self.debt
            }

            /// The largest debt that this limit permits: together at most twice the highest limit.
            pub(crate) const fn max_debt(&self) -> u64 {
                let most = $most.saturating_mul(2).saturating_sub(self.limit);
                if most < Quota::MAX_UNITS { most } else { Quota::MAX_UNITS }
            }

            pub(crate) const fn with_debt(self, debt: Debt) -> Self {
                Self { debt, ..self }
            }
        }
    };
}

pub(super) use impl_debt;

/// The highest ceiling, in microseconds: that of the longest time to full with an equal debt.
pub(crate) const MAX_CEILING: u64 = 1 << 52;

const UNITS: u64 = (1 << EXPONENT_AT) - 1;
const EXPONENT_AT: u32 = 50;
const MAX_EXPONENT: u64 = 63;
const MANTISSA_AT: u32 = 56;
/// One less than there is room for, so that rounding up does not overflow.
const MANTISSA_BITS: u32 = 7;

const _: () = assert!(Quota::MAX_UNITS < UNITS, "a debt of units fits, and none at all");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_are_exact_and_ceilings_rounded_up() {
        assert_eq!((Debt::DEFAULT.units(), Debt::DEFAULT.ceiling()), (None, None));
        for units in [0, 1, 499, Quota::MAX_UNITS] {
            for micros in [1, 2, 100, 127, 128, 129, 255, 256, 257, 999_999_937, MAX_CEILING - 1, MAX_CEILING]
            {
                let debt = Debt::DEFAULT.with_units(units).with_ceiling(micros);
                assert_eq!(
                    (debt.units(), debt.with_ceiling(1).with_units(units)),
                    (Some(units), debt.with_ceiling(1))
                );
                let ceiling = debt.ceiling().unwrap();
                assert!(ceiling >= micros && ceiling <= micros + micros / 64, "{micros}: {ceiling}");
                assert_eq!(Debt::DEFAULT.with_ceiling(ceiling).ceiling(), Some(ceiling));
            }
        }
        let share = Debt::DEFAULT.with_units(10).with_ceiling(9).share(NonZeroU32::new(3).unwrap());
        assert_eq!((share.units(), share.ceiling()), (Some(3), None));
    }
}
