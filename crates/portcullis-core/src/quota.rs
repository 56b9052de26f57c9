//! How much, in how long.

mod parse;

use core::fmt;
use core::time::Duration;

pub use parse::ParseQuotaError;

/// So many units per period and, for the meters, how many at one instant.
///
/// `per_second(n)` is always *n per second*. The constructors named `per_*` and [`burst`](Quota::burst) are for
/// numbers written in the source; numbers that come from elsewhere go through [`Quota::new`], [`Quota::try_burst`] or
/// [`FromStr`](core::str::FromStr).
///
/// ```
/// use core::time::Duration;
/// use portcullis_core::Quota;
///
/// const SEARCH: Quota = Quota::per_second(10).burst(20);
/// assert_eq!(SEARCH.limit(), 10);
/// assert_eq!(SEARCH.period(), Duration::from_secs(1));
/// assert_eq!("10/s burst 20".parse(), Ok(SEARCH));
/// assert_eq!(SEARCH.to_string(), "10/s burst 20");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u32,
    period_micros: u64,
    burst: Option<u32>,
}

impl Quota {
    /// The longest period, and the longest time in which a meter may fill: 2^51 microseconds, about 71 years.
    pub const MAX_PERIOD: Duration = Duration::from_micros(MAX_MICROS);

    /// `limit` units per `period`.
    ///
    /// # Errors
    ///
    /// If `limit` is zero, or `period` is zero, longer than [`Quota::MAX_PERIOD`] or not whole microseconds.
    pub const fn new(limit: u32, period: Duration) -> Result<Self, QuotaError> {
        if limit == 0 {
            return Err(QuotaError::ZeroLimit);
        }
        if period.is_zero() {
            return Err(QuotaError::ZeroPeriod);
        }
        let period_micros = crate::time::saturating_micros(period);
        if period_micros > MAX_MICROS {
            return Err(QuotaError::PeriodTooLong(period));
        }
        if !period.subsec_nanos().is_multiple_of(NANOS_PER_MICRO) {
            return Err(QuotaError::FractionalPeriod(period));
        }
        Ok(Self { limit, period_micros, burst: None })
    }

    /// `limit` units per second.
    ///
    /// # Panics
    ///
    /// If `limit` is zero.
    #[track_caller]
    pub const fn per_second(limit: u32) -> Self {
        Self::literal(limit, 1)
    }

    /// `limit` units per minute of 60 seconds.
    ///
    /// # Panics
    ///
    /// If `limit` is zero.
    #[track_caller]
    pub const fn per_minute(limit: u32) -> Self {
        Self::literal(limit, 60)
    }

    /// `limit` units per hour of 3600 seconds.
    ///
    /// # Panics
    ///
    /// If `limit` is zero.
    #[track_caller]
    pub const fn per_hour(limit: u32) -> Self {
        Self::literal(limit, 3_600)
    }

    /// `limit` units per day of 24 hours.
    ///
    /// # Panics
    ///
    /// If `limit` is zero.
    #[track_caller]
    pub const fn per_day(limit: u32) -> Self {
        Self::literal(limit, 86_400)
    }

    /// `limit` units per week of 7 days.
    ///
    /// # Panics
    ///
    /// If `limit` is zero.
    #[track_caller]
    pub const fn per_week(limit: u32) -> Self {
        Self::literal(limit, 604_800)
    }

    /// `limit` units per `period`, for periods without a constructor of their own, such as 5 per 15 minutes.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis_core::{Policy, Quota};
    ///
    /// const SIGN_INS: Policy = Policy::fixed_window("sign-ins", Quota::per(5, Duration::from_secs(15 * 60)));
    /// assert_eq!(SIGN_INS.strategy().limit(), 5);
    /// assert_eq!(Quota::per(5, Duration::from_secs(15 * 60)).to_string(), "5/15min");
    /// ```
    ///
    /// # Panics
    ///
    /// If `limit` is zero, or `period` is zero, longer than [`Quota::MAX_PERIOD`] or not whole microseconds. Use
    /// [`Quota::new`] for values that are not constants.
    #[track_caller]
    pub const fn per(limit: u32, period: Duration) -> Self {
        match Self::new(limit, period) {
            Ok(quota) => quota,
            Err(error) => error.panic(),
        }
    }

    /// Admits at most `burst` units at one instant after idling, the first one included.
    ///
    /// Only the meters have a burst: a policy of another strategy refuses it.
    ///
    /// # Panics
    ///
    /// If `burst` is zero.
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u32) -> Self {
        match self.try_burst(burst) {
            Ok(quota) => quota,
            Err(error) => error.panic(),
        }
    }

    /// Like [`Quota::burst`], for numbers that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If `burst` is zero.
    pub const fn try_burst(self, burst: u32) -> Result<Self, QuotaError> {
        if burst == 0 {
            return Err(QuotaError::ZeroBurst);
        }
        Ok(Self { burst: Some(burst), ..self })
    }

    /// Units per period in steady state, at least 1.
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// The length of the period, whole microseconds.
    pub const fn period(self) -> Duration {
        Duration::from_micros(self.period_micros)
    }

    /// The burst, where one was asked for. What is the default otherwise is the strategy's to say.
    pub const fn asked_burst(self) -> Option<u32> {
        self.burst
    }

    pub(crate) const fn period_micros(self) -> u64 {
        self.period_micros
    }

    #[track_caller]
    const fn literal(limit: u32, seconds: u64) -> Self {
        Self::per(limit, Duration::from_secs(seconds))
    }
}

impl fmt::Display for Quota {
    /// Prints a form that parses to the same quota, in the largest unit that divides its period: `100/min`, `5/10s`, `10/s burst 20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = parse::largest_unit(self.period_micros);
        write!(f, "{}/", self.limit)?;
        if count != 1 {
            write!(f, "{count}")?;
        }
        f.write_str(unit)?;
        match self.burst {
            Some(burst) => write!(f, " burst {burst}"),
            None => Ok(()),
        }
    }
}

/// Why a quota cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// The limit is zero.
    #[error("a quota of zero units admits nothing: the limit must be at least 1")]
    ZeroLimit,
    /// The period is zero.
    #[error("a period of zero has no end: it must be at least 1 microsecond")]
    ZeroPeriod,
    /// The burst is zero.
    #[error("a burst of zero admits nothing: it includes the first unit and must be at least 1")]
    ZeroBurst,
    /// The period is not whole microseconds.
    #[error("a period of {0:?} is not a whole number of microseconds")]
    FractionalPeriod(Duration),
    /// The period is longer than [`Quota::MAX_PERIOD`].
    #[error("a period of {0:?} is longer than the bound of 2^51 microseconds (about 71 years)")]
    PeriodTooLong(Duration),
    /// Filling up would take longer than [`Quota::MAX_PERIOD`].
    #[error(
        "a burst of {burst} at this rate takes longer to fill than the bound of 2^51 microseconds (about 71 years)"
    )]
    FillsTooSlowly {
        /// The burst that was asked for.
        burst: u32,
    },
    /// The rate, in lowest terms, times the burst exceeds what is computed exactly.
    #[error(
        "a burst of {burst} with the rate's denominator {denominator} exceeds the exact range \
         (denominator * burst must stay below 2^53): choose a limit with more factors in common with the period"
    )]
    TooFine {
        /// The burst that was asked for.
        burst: u32,
        /// The limit divided by its greatest common divisor with the period in microseconds.
        denominator: u64,
    },
    /// A burst was given to a strategy that has none.
    #[error("a burst of {burst} was given to a strategy that has none: only the meters have a burst")]
    BurstNotSupported {
        /// The burst that was asked for.
        burst: u32,
    },
    /// A sliding window cannot be divided so.
    #[error(
        "a period of {period:?} has no {slots} slots: there must be 1 to 1000 of them, each a whole number of \
         microseconds"
    )]
    UnevenSlots {
        /// The slots that were asked for.
        slots: u32,
        /// The period.
        period: Duration,
    },
    /// A sliding log would keep too much.
    #[error("a sliding log of {limit} units is longer than the bound of 100000: take a sliding window")]
    LogTooLong {
        /// The limit that was asked for.
        limit: u32,
    },
}

impl QuotaError {
    /// Ends a literal that is nonsense, with the message of the error.
    #[track_caller]
    pub(crate) const fn panic(self) -> ! {
        match self {
            Self::ZeroLimit => panic!("a quota of zero units admits nothing: the limit must be at least 1"),
            Self::ZeroPeriod => panic!("a period of zero has no end: it must be at least 1 microsecond"),
            Self::ZeroBurst => panic!("a burst of zero admits nothing: it must be at least 1"),
            Self::FractionalPeriod(_) => panic!("the period is not a whole number of microseconds"),
            Self::PeriodTooLong(_) => panic!("the period is longer than 2^51 microseconds (about 71 years)"),
            Self::FillsTooSlowly { .. } => panic!("the burst takes longer to fill than 2^51 microseconds"),
            Self::TooFine { .. } => panic!("the rate's denominator times the burst must stay below 2^53"),
            Self::BurstNotSupported { .. } => panic!("only the meters have a burst"),
            Self::UnevenSlots { .. } => panic!("the slots must be 1 to 1000 and divide the period evenly"),
            Self::LogTooLong { .. } => {
                panic!("a sliding log has at most 100000 units: take a sliding window")
            }
        }
    }
}

/// 2^51: twice this, added to an instant of our century, stays exact in a double.
pub(crate) const MAX_MICROS: u64 = 1 << 51;
const NANOS_PER_MICRO: u32 = 1_000;

#[cfg(test)]
mod tests;
