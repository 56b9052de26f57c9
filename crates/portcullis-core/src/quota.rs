//! Quotas: units per period.

mod parse;

use core::fmt;
use core::time::Duration;

pub use parse::ParseQuotaError;
#[cfg(feature = "serde")]
pub(crate) use parse::{duration, duration_text};

/// A number of units per period and, for rate-based algorithms, a burst.
///
/// `per_second(n)` always means *n per second*. The constructors named `per_*` and [`burst`](Quota::burst) are for numbers
/// written in the source; other numbers go through [`Quota::new`] or
/// [`FromStr`](core::str::FromStr).
///
/// ```
/// use core::time::Duration;
/// use portcullis::Quota;
///
/// const SEARCH: Quota = Quota::per_second(10).burst(20);
/// assert_eq!(SEARCH.limit(), 10);
/// assert_eq!(SEARCH.period(), Duration::from_secs(1));
/// assert_eq!("10/s burst 20".parse(), Ok(SEARCH));
/// assert_eq!(SEARCH.to_string(), "10/s burst 20");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    period_micros: u64,
    burst: Option<u64>,
}

impl Quota {
    /// The highest limit, burst and cost: 999,999,999,999,999 units.
    ///
    /// This is the largest integer that a header in the form of a structured field can carry. Sums of such numbers stay exact
    /// in a double, the only number type of Lua in Redis.
    ///
    /// Source: RFC 9651, section 3.3.1.
    pub const MAX_UNITS: u64 = 999_999_999_999_999;

    /// No limit: requests are admitted and nothing is counted, so that no state is kept and no header is written. Its text is
    /// `unlimited`.
    ///
    /// It is the quota of an internal caller, or of a plan without a limit, and fits each policy, whatever its period.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// assert_eq!("unlimited".parse(), Ok(Quota::UNLIMITED));
    /// assert!(Policy::gcra("internal", Quota::UNLIMITED).is_unlimited());
    /// ```
    pub const UNLIMITED: Self = Self { limit: UNLIMITED_UNITS, period_micros: 1_000_000, burst: None };

    /// The longest period, and the longest time that a burst may take to refill: 2^51 microseconds, about 71 years.
    pub const MAX_PERIOD: Duration = Duration::from_micros(MAX_MICROS);

    /// `limit` units per `period`, and a [burst](Quota::burst) if there is one, for numbers that are not constants.
    ///
    /// A quota of zero units admits nothing, with a burst of 0 or none: it closes a policy, or an account whose limit in a database is 0.
    /// A client is rejected without a time after which to retry.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::{Quota, QuotaError};
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(Quota::new(10, second, Some(20)), Ok(Quota::per_second(10).burst(20)));
    /// assert_eq!(Quota::new(10, second, None), Ok(Quota::per_second(10)));
    /// assert_eq!(Quota::new(10, second, Some(0)), Err(QuotaError::ZeroBurst));
    /// assert!(Quota::new(0, second, None)?.is_zero());
    /// # Ok::<(), QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `limit` or `burst` is more than [`Quota::MAX_UNITS`], one of the two is zero and the other is not, or `period` is zero, longer than [`Quota::MAX_PERIOD`] or
    /// not whole microseconds.
    pub const fn new(limit: u64, period: Duration, burst: Option<u64>) -> Result<Self, QuotaError> {
        if limit > Self::MAX_UNITS {
            return Err(QuotaError::TooManyUnits { units: limit });
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
        match burst {
            Some(0) if limit == 0 => Ok(Self { limit, period_micros, burst: None }),
            Some(burst) if limit == 0 => Err(QuotaError::BurstOfZero { burst }),
            Some(0) => Err(QuotaError::ZeroBurst),
            Some(units) if units > Self::MAX_UNITS => Err(QuotaError::TooManyUnits { units }),
            _ => Ok(Self { limit, period_micros, burst }),
        }
    }

    /// `limit` units per second.
    ///
    /// # Panics
    ///
    /// If `limit` is more than [`Quota::MAX_UNITS`].
    #[track_caller]
    pub const fn per_second(limit: u64) -> Self {
        Self::literal(limit, 1)
    }

    /// `limit` units per minute of 60 seconds.
    ///
    /// # Panics
    ///
    /// If `limit` is more than [`Quota::MAX_UNITS`].
    #[track_caller]
    pub const fn per_minute(limit: u64) -> Self {
        Self::literal(limit, 60)
    }

    /// `limit` units per hour of 3600 seconds.
    ///
    /// # Panics
    ///
    /// If `limit` is more than [`Quota::MAX_UNITS`].
    #[track_caller]
    pub const fn per_hour(limit: u64) -> Self {
        Self::literal(limit, 3_600)
    }

    /// `limit` units per day of 24 hours.
    ///
    /// # Panics
    ///
    /// If `limit` is more than [`Quota::MAX_UNITS`].
    #[track_caller]
    pub const fn per_day(limit: u64) -> Self {
        Self::literal(limit, 86_400)
    }

    /// `limit` units per week of 7 days.
    ///
    /// # Panics
    ///
    /// If `limit` is more than [`Quota::MAX_UNITS`].
    #[track_caller]
    pub const fn per_week(limit: u64) -> Self {
        Self::literal(limit, 604_800)
    }

    /// `limit` units per `period`, for periods without a named constructor, such as 5 per 15 minutes.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::{Policy, Quota};
    ///
    /// const SIGN_INS: Policy = Policy::fixed_window("sign-ins", Quota::per(5, Duration::from_secs(15 * 60)));
    /// assert_eq!(SIGN_INS.strategy().limit(), 5);
    /// assert_eq!(Quota::per(5, Duration::from_secs(15 * 60)).to_string(), "5/15min");
    /// ```
    ///
    /// # Panics
    ///
    /// If `limit` is more than [`Quota::MAX_UNITS`], or `period` is zero, longer than [`Quota::MAX_PERIOD`] or not whole microseconds. Use
    /// [`Quota::new`] for values that are not constants.
    #[track_caller]
    pub const fn per(limit: u64, period: Duration) -> Self {
        match Self::new(limit, period, None) {
            Ok(quota) => quota,
            Err(error) => error.panic(),
        }
    }

    /// Admits at most `burst` units at one instant after an idle time, including the first one.
    ///
    /// Only rate-based algorithms (GCRA, token bucket, leaky bucket) have a burst: other strategies reject the quota.
    ///
    /// # Panics
    ///
    /// If `burst` is zero or more than [`Quota::MAX_UNITS`], or the limit is zero or [unlimited](Quota::UNLIMITED).
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u64) -> Self {
        match Self::new(self.limit, self.period(), Some(burst)) {
            Ok(quota) => quota,
            Err(error) => error.panic(),
        }
    }

    /// Whether the quota [admits nothing](Quota::new).
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.limit == 0
    }

    /// Whether the quota is [`Quota::UNLIMITED`].
    #[inline]
    pub const fn is_unlimited(self) -> bool {
        self.limit == UNLIMITED_UNITS
    }

    /// The same quota per another period of a valid quota.
    pub(crate) const fn with_period(self, period: Option<Duration>) -> Self {
        match period {
            Some(period) => Self { period_micros: crate::time::saturating_micros(period), ..self },
            None => self,
        }
    }

    /// Units per period in steady state, from 0 to [`Quota::MAX_UNITS`]; one more if the quota is [unlimited](Quota::UNLIMITED).
    pub const fn limit(self) -> u64 {
        self.limit
    }

    /// The length of the period, in whole microseconds.
    pub const fn period(self) -> Duration {
        Duration::from_micros(self.period_micros)
    }

    /// The burst, if one was set. Otherwise the strategy determines the default.
    pub const fn explicit_burst(self) -> Option<u64> {
        self.burst
    }

    pub(crate) const fn period_micros(self) -> u64 {
        self.period_micros
    }

    #[track_caller]
    const fn literal(limit: u64, seconds: u64) -> Self {
        Self::per(limit, Duration::from_secs(seconds))
    }
}

impl fmt::Display for Quota {
    /// Prints a form that parses to the same quota, in the largest unit that divides its period: `100/min`, `5/10s`,
    /// `10/s burst 20`, `unlimited`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.write_str(parse::UNLIMITED);
        }
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

/// Why a quota is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// The limit is zero, and the burst is not.
    #[error(
        "a quota of zero units admits nothing, so it cannot have a burst of {burst}: leave out the burst"
    )]
    BurstOfZero {
        /// The burst of the quota.
        burst: u64,
    },
    /// The limit or the burst is more than [`Quota::MAX_UNITS`].
    #[error("{units} units are more than the maximum of 999999999999999")]
    TooManyUnits {
        /// The limit or the burst.
        units: u64,
    },
    /// The period is zero.
    #[error("the period is zero: it must be at least 1 microsecond")]
    ZeroPeriod,
    /// The burst is zero.
    #[error("a burst of zero admits nothing: it includes the first unit and must be at least 1")]
    ZeroBurst,
    /// The period is not a whole number of microseconds.
    #[error("a period of {0:?} is not a whole number of microseconds")]
    FractionalPeriod(Duration),
    /// The period is longer than [`Quota::MAX_PERIOD`].
    #[error("a period of {0:?} is longer than the bound of 2^51 microseconds (about 71 years)")]
    PeriodTooLong(Duration),
    /// The burst would take longer to refill than [`Quota::MAX_PERIOD`].
    #[error(
        "a burst of {burst} at this rate takes longer to refill than the bound of 2^51 microseconds \
         (about 71 years)"
    )]
    FillsTooSlowly {
        /// The burst of the quota.
        burst: u64,
    },
    /// The quota has a burst, but the strategy does not support one.
    #[error(
        "a burst of {burst} is not supported by this strategy: only GCRA, the token bucket and the leaky bucket \
         have one"
    )]
    BurstNotSupported {
        /// The burst of the quota.
        burst: u64,
    },
    /// The period cannot be divided into this number of slots.
    #[error(
        "a period of {period:?} cannot have {slots} slots: there must be 1 to 1000, each a whole number of \
         microseconds"
    )]
    UnevenSlots {
        /// The number of slots.
        slots: u32,
        /// The period.
        period: Duration,
    },
    /// The limit of a sliding window is too high.
    #[error(
        "a sliding window of {limit} units is larger than the bound of 4294967295: use a fixed window or a \
         rate-based strategy"
    )]
    WindowTooLarge {
        /// The limit of the quota.
        limit: u64,
    },
    /// A calendar window, or a limit on requests in flight, has less than one unit for each instance that shares it.
    #[error(
        "a limit of {limit} units that cannot be spread over time has less than one unit for each instance"
    )]
    ShareBelowOne {
        /// The limit of the policy.
        limit: u64,
    },
    /// A limit on requests in flight is too high.
    #[error("a limit of {limit} requests in flight is higher than the bound of 1000")]
    TooManyInFlight {
        /// The limit.
        limit: u64,
    },
    /// The lease of a limit on requests in flight is too short or too long, or not a whole number of microseconds.
    #[error("a permit cannot have a lease of {0:?}: it must be 1 s to 1 h, in whole microseconds")]
    InvalidLease(Duration),
    /// The limit of a sliding log is too high.
    #[error("a sliding log of {limit} units is longer than the bound of 100000: use a sliding window")]
    LogTooLong {
        /// The limit of the quota.
        limit: u64,
    },
}

impl QuotaError {
    /// Panics on an invalid literal, with a message like that of the error.
    #[track_caller]
    pub(crate) const fn panic(self) -> ! {
        match self {
            Self::BurstOfZero { .. } => panic!("a quota of zero units has no burst"),
            Self::TooManyUnits { .. } => panic!("a limit or a burst is at most 999999999999999 units"),
            Self::ZeroPeriod => panic!("the period is zero: it must be at least 1 microsecond"),
            Self::ZeroBurst => panic!("a burst of zero admits nothing: it must be at least 1"),
            Self::FractionalPeriod(_) => panic!("the period is not a whole number of microseconds"),
            Self::PeriodTooLong(_) => panic!("the period is longer than 2^51 microseconds (about 71 years)"),
            Self::FillsTooSlowly { .. } => panic!("the burst takes longer to refill than 2^51 microseconds"),
            Self::BurstNotSupported { .. } => {
                panic!("only GCRA, the token bucket and the leaky bucket have a burst")
            }
            Self::UnevenSlots { .. } => panic!("the slots must be 1 to 1000 and divide the period evenly"),
            Self::WindowTooLarge { .. } => {
                panic!("a sliding window has at most 4294967295 units: use a fixed window")
            }
            Self::ShareBelowOne { .. } => {
                panic!("a limit that cannot be spread over time has less than one unit for each instance")
            }
            Self::TooManyInFlight { .. } => panic!("there are at most 1000 requests in flight"),
            Self::InvalidLease(_) => panic!("a lease must be 1 s to 1 h, in whole microseconds"),
            Self::LogTooLong { .. } => {
                panic!("a sliding log has at most 100000 units: use a sliding window")
            }
        }
    }
}

/// The limit of a quota without one, which fits what fits a limit.
pub(crate) const UNLIMITED_UNITS: u64 = Quota::MAX_UNITS + 1;
/// 2^51: twice this, added to an instant of our century, stays exact in a double.
pub(crate) const MAX_MICROS: u64 = 1 << 51;
const NANOS_PER_MICRO: u32 = 1_000;

#[cfg(test)]
mod tests;
