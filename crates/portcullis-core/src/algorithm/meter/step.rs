//! The step in which time passes for a meter.

use core::num::NonZeroU64;

/// The period of a token bucket in microseconds, and whether time passes in steps of it; one microsecond for other meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step(NonZeroU64);

impl Step {
    /// Time passes continuously.
    pub(crate) const MICROSECOND: Self = Self(NonZeroU64::MIN);

    /// Time passes continuously, and the period is kept.
    pub(crate) const fn greedy(period: NonZeroU64) -> Self {
        if period.get() == 1 { Self(period) } else { Self(period.saturating_add(GREEDY)) }
    }

    /// Time passes in steps of the period.
    pub(crate) const fn interval(period: NonZeroU64) -> Self {
        Self(period)
    }

    /// The step in microseconds.
    #[inline]
    pub(crate) const fn grain(self) -> u64 {
        if self.0.get() >= GREEDY { 1 } else { self.0.get() }
    }

    /// The period in microseconds.
    pub(crate) const fn period(self) -> NonZeroU64 {
        match NonZeroU64::new(self.0.get() & !GREEDY) {
            Some(period) => period,
            None => NonZeroU64::MIN,
        }
    }
}

/// A period is less.
const GREEDY: u64 = 1 << 63;
