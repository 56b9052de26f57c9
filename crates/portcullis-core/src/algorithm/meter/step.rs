//! The step in which time passes for a meter.

use core::num::NonZeroU64;

/// The period of a token bucket in microseconds, and whether time passes in steps of it; one microsecond for other meters.
///
/// The [highest bit](CONTINUOUS) is set if time passes continuously, as it does for nearly all meters: so one test finds that out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step(NonZeroU64);

impl Step {
    /// Time passes continuously.
    pub(crate) const MICROSECOND: Self = Self::greedy(NonZeroU64::MIN);

    /// Time passes continuously, and the period is kept.
    pub(crate) const fn greedy(period: NonZeroU64) -> Self {
        Self(period.saturating_add(CONTINUOUS))
    }

    /// Time passes in steps of the period.
    pub(crate) const fn interval(period: NonZeroU64) -> Self {
        if period.get() == 1 { Self::MICROSECOND } else { Self(period) }
    }

    #[inline]
    pub(crate) const fn is_continuous(self) -> bool {
        self.0.get() >= CONTINUOUS
    }

    /// The step in microseconds.
    #[inline]
    pub(crate) const fn grain(self) -> u64 {
        if self.is_continuous() { 1 } else { self.0.get() }
    }

    /// The period in microseconds.
    pub(crate) const fn period(self) -> NonZeroU64 {
        match NonZeroU64::new(self.0.get() & !CONTINUOUS) {
            Some(period) => period,
            None => NonZeroU64::MIN,
        }
    }
}

/// A period is less.
const CONTINUOUS: u64 = 1 << 63;
