//! Numbers in fewer bytes: the checks and decisions of a request are moved several times.

use core::fmt;
use core::time::Duration;

/// A number of 128 bits with the alignment of one of 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wide {
    low: u64,
    high: u64,
}

/// A length of time in whole nanoseconds, at most 584 years: a [`Duration`] in half of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nanos(u64);

impl Wide {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
    pub(crate) const fn new(number: u128) -> Self {
        Self { low: number as u64, high: (number >> 64) as u64 }
    }

    #[inline]
    pub(crate) const fn get(self) -> u128 {
        (self.low as u128) | ((self.high as u128) << 64)
    }
}

impl Nanos {
    /// Longer durations, which no quota has, count as the longest.
    #[inline]
    pub(crate) const fn new(duration: Duration) -> Self {
        let whole = duration.as_secs().saturating_mul(NANOS_PER_SECOND);
        Self(whole.saturating_add(duration.subsec_nanos() as u64))
    }

    /// Like [`Nanos::new`], for whole microseconds.
    #[inline]
    pub(crate) const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(NANOS_PER_MICRO))
    }

    #[inline]
    pub(crate) const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) const fn whole(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MICRO: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Policy, PolicyName, Quota};

    #[test]
    fn numbers_are_kept_and_durations_up_to_584_years() {
        for number in [0, 1, u128::from(u64::MAX), 1 << 64, u128::MAX - 5, u128::MAX] {
            assert_eq!(Wide::new(number).get(), number);
        }
        for duration in
            [Duration::ZERO, Duration::new(7, 1), Quota::MAX_PERIOD * 4, Duration::from_nanos(u64::MAX)]
        {
            assert_eq!(Nanos::new(duration).get(), duration);
        }
        assert_eq!(Nanos::new(Duration::MAX).get(), Duration::from_nanos(u64::MAX));
        for micros in [0, 1, 1_234_567, u64::MAX / 1_000, u64::MAX / 1_000 + 1, u64::MAX] {
            assert_eq!(Nanos::from_micros(micros), Nanos::new(Duration::from_micros(micros)));
        }
    }

    #[test]
    fn what_is_moved_with_each_decision_stays_small() {
        assert_eq!(size_of::<PolicyName>(), 16);
        assert_eq!(size_of::<Policy>(), 112);
        assert_eq!(size_of::<Decision>(), 80);
        assert!(size_of::<crate::store::Outcome>() <= 560);
    }
}
