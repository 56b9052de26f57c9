//! Instants on a store's clock.

use core::fmt;
use core::time::Duration;

/// An instant on a store's clock: whole microseconds since the Unix epoch, below 2^53.
///
/// The bound keeps every instant exact in a double, the only number type of Lua in Redis. It is reached in the year 2255.
/// Larger values saturate at [`Timestamp::MAX`].
///
/// ```
/// use core::time::Duration;
/// use portcullis::Timestamp;
///
/// let start = Timestamp::from_micros(1_000_000);
/// let later = start.saturating_add(Duration::from_millis(1));
/// assert_eq!(later.as_micros(), 1_001_000);
/// assert_eq!(later.saturating_since(start), Duration::from_millis(1));
/// assert_eq!(start.saturating_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last instant: 2^53 - 1 microseconds after the epoch, in the year 2255.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The instant `micros` microseconds after the Unix epoch, at most [`Timestamp::MAX`].
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    /// Microseconds since the Unix epoch.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The instant `wait` later, at most [`Timestamp::MAX`]. `wait` is rounded down to a microsecond.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, wait: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(saturating_micros(wait)))
    }

    /// The instant `wait` earlier, at least [`Timestamp::EPOCH`]. `wait` is rounded down to a microsecond.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_micros(wait)))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(feature = "std")]
impl From<std::time::SystemTime> for Timestamp {
    /// Instants before the epoch become [`Timestamp::EPOCH`].
    fn from(time: std::time::SystemTime) -> Self {
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::EPOCH.saturating_add(since)
    }
}

impl fmt::Display for Timestamp {
    /// Prints seconds and microseconds since the epoch: `1767225600.000001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / MICROS_PER_SECOND, self.0 % MICROS_PER_SECOND)
    }
}

/// The whole microseconds of `duration`, at most `u64::MAX`.
#[inline]
pub(crate) const fn saturating_micros(duration: Duration) -> u64 {
    // In 64 bits: every reading of a clock is converted.
    let whole = duration.as_secs().saturating_mul(MICROS_PER_SECOND);
    whole.saturating_add(duration.subsec_micros() as u64)
}

const MICROS_PER_SECOND: u64 = 1_000_000;

#[cfg(test)]
mod tests;
