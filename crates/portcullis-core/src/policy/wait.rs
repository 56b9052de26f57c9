//! Policies under which requests wait instead of being rejected.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::{Policy, QuotaError, Strategy};

/// Why requests cannot wait that long under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The longest wait is zero.
    #[error("a wait of at most 0 s is no wait: it must be at least 1 us, or left out")]
    Zero,
    /// The longest wait is not a whole number of microseconds.
    #[error("a wait of at most {0:?} is not a whole number of microseconds")]
    Fractional(Duration),
    /// The longest wait is longer than [`Policy::MAX_WAIT`].
    #[error("a wait of at most {0:?} is longer than one hour")]
    TooLong(Duration),
    /// No refill of a token bucket with interval refill is sure to happen in the longest wait.
    #[error(
        "a wait of at most {wait:?} is shorter than the interval of {interval:?} at which the bucket is refilled"
    )]
    ShorterThanRefill {
        /// The longest wait.
        wait: Duration,
        /// The period of the bucket.
        interval: Duration,
    },
    /// The policy has a lease.
    #[error("requests cannot wait under a policy with a lease: leave out the lease or the wait")]
    Leased,
    /// The policy declares [quotas of single callers](Policy::caller_quotas) for another longest wait.
    #[error("the quotas of single callers are declared already: set the wait before them")]
    AfterCallerQuotas,
    /// The burst and the longest wait exceed a bound of the algorithm, alone or in the share of one instance.
    #[error("a wait of at most {wait:?} is too long for the burst: {error}")]
    Quota {
        /// The longest wait.
        wait: Duration,
        /// What is wrong with the two together.
        error: QuotaError,
    },
}

impl WaitError {
    /// Panics on an invalid literal.
    #[track_caller]
    pub(super) const fn panic(self) -> ! {
        match self {
            Self::Zero => panic!("a wait of at most 0 s is no wait"),
            Self::Fractional(_) => panic!("a wait is a whole number of microseconds"),
            Self::TooLong(_) => panic!("a wait is at most one hour"),
            Self::ShorterThanRefill { .. } => {
                panic!("a wait is at least as long as the interval of the refill")
            }
            Self::Leased => panic!("requests cannot wait under a policy with a lease"),
            Self::AfterCallerQuotas => panic!("a wait is set before the quotas of single callers"),
            Self::Quota { .. } => panic!("the burst and the wait exceed a bound of the algorithm"),
        }
    }
}

impl Policy {
    /// The longest time for which a request may wait: one hour.
    pub const MAX_WAIT: Duration = Duration::from_secs(3_600);

    /// Lets a request that does not fit now wait for up to `wait` instead of being rejected.
    ///
    /// **Token bucket and GCRA.** The request is admitted with a [delay](crate::Decision::delay), until it would fit. The decision
    /// charges it: one call of the store reserves its slot, behind those of all processes, in the order of the decisions. So the
    /// level may exceed the burst by what drains in the wait, and requests proceed as the policy promises without a wait. A request
    /// whose delay would be longer is denied at once, and [`Retry`](crate::Retry) is when it would be admitted with a delay. With
    /// interval refill a request waits for one of the next `wait / period` refills, rounded down.
    ///
    /// **Leaky bucket.** Its requests wait already. The queue holds the units that drain in the wait and one more, in the place
    /// of its burst.
    ///
    /// **Windows and logs.** They reserve nothing: a request that does not fit is denied and charged nothing, with the time
    /// after which it may fit. Their caller waits for up to `wait` and checks again, as a layer does.
    ///
    /// **Requests in flight.** A request that finds no permit is denied and takes none, and when one comes back is unknown. Its caller
    /// waits for up to `wait`, and checks again when one was released: [`Concurrency::wait_at_most`](crate::Concurrency::wait_at_most).
    ///
    /// While requests wait, [`remaining`](crate::Decision::remaining) is 0. A request with a cost above the burst (limit) is denied at
    /// once, because it never fits.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::{Policy, Quota, Timestamp};
    ///
    /// // Ten calls per second to a partner; a call too many waits for up to two seconds.
    /// const PARTNER: Policy = Policy::gcra("partner", Quota::per_second(10)).wait_at_most(Duration::from_secs(2));
    /// assert_eq!(PARTNER.max_wait(), Some(Duration::from_secs(2)));
    ///
    /// let (strategy, now) = (*PARTNER.strategy(), Timestamp::EPOCH);
    /// let mut state = None;
    /// let mut delays = Vec::new();
    /// while strategy.evaluate(state.as_ref(), now, 1).admitted {
    ///     strategy.charge(&mut state, now, 1);
    ///     delays.push(strategy.snapshot(state.as_ref(), now, 1, true).delay);
    /// }
    /// assert_eq!(delays.len(), 21);
    /// assert_eq!(delays[..3], [0, 100, 200].map(Duration::from_millis));
    /// assert_eq!(delays.last(), PARTNER.max_wait().as_ref());
    /// ```
    ///
    /// # Panics
    ///
    /// If `wait` is zero, longer than [`MAX_WAIT`](Policy::MAX_WAIT) or not a whole number of microseconds; if it is shorter than
    /// the period of a token bucket with interval refill; if the policy has a [lease](Policy::lease) or declares
    /// [quotas of single callers](Policy::caller_quotas); if the burst, or the
    /// [share](Policy::share) of it, takes longer than 2^51 microseconds to refill together with the wait, or the queue of a leaky
    /// bucket has more than [`Quota::MAX_UNITS`](crate::Quota::MAX_UNITS) units.
    #[must_use]
    #[track_caller]
    pub const fn wait_at_most(mut self, wait: Duration) -> Self {
        match self.set_wait(wait) {
            Ok(()) => self,
            Err(error) => error.panic(),
        }
    }

    /// The longest time for which a request [waits](Policy::wait_at_most); `None` if one that does not fit is rejected at once.
    pub const fn max_wait(&self) -> Option<Duration> {
        self.lease_or_wait.wait()
    }

    /// Whether [`max_wait`](Policy::max_wait) is set.
    #[inline]
    pub(crate) const fn waits(&self) -> bool {
        self.lease_or_wait.is_wait()
    }

    pub(super) const fn set_wait(&mut self, wait: Duration) -> Result<(), WaitError> {
        if wait.is_zero() {
            return Err(WaitError::Zero);
        }
        if wait.as_nanos() > Policy::MAX_WAIT.as_nanos() {
            return Err(WaitError::TooLong(wait));
        }
        if !wait.subsec_nanos().is_multiple_of(NANOS_PER_MICRO) {
            return Err(WaitError::Fractional(wait));
        }
        if self.max_lease().is_some() {
            return Err(WaitError::Leased);
        }
        if self.caller_quotas.is_some() {
            return Err(WaitError::AfterCallerQuotas);
        }
        let micros = crate::time::saturating_micros(wait);
        if let Strategy::TokenBucket(bucket) = self.strategy()
            && bucket.meter().grain() > micros
        {
            let interval = Duration::from_micros(bucket.meter().grain());
            return Err(WaitError::ShorterThanRefill { wait, interval });
        }
        let strategy = match self.strategy.with_wait(micros) {
            Ok(strategy) => strategy,
            Err(error) => return Err(WaitError::Quota { wait, error }),
        };
        if let crate::FailureMode::Local { instances } = self.failure_mode()
            && let Err(error) = strategy.share(instances)
        {
            return Err(WaitError::Quota { wait, error });
        }
        self.strategy = strategy;
        self.lease_or_wait = self.lease_or_wait.with_wait(micros);
        Ok(())
    }
}

impl Strategy {
    /// Sets the longest wait. Windows, logs and limits on requests in flight have none of their own.
    pub(super) const fn with_wait(self, micros: u64) -> Result<Self, QuotaError> {
        macro_rules! with_wait {
            ($algorithm:expr, $kind:ident) => {
                match $algorithm.with_wait(micros) {
                    Ok(algorithm) => Ok(Self::$kind(algorithm)),
                    Err(error) => Err(error),
                }
            };
        }
        match self {
            // No request waits under it.
            Self::LeakyBucket(_) if self.limit() == 0 || self.is_unlimited() => Ok(self),
            Self::TokenBucket(bucket) => with_wait!(bucket, TokenBucket),
            Self::Gcra(gcra) => with_wait!(gcra, Gcra),
            Self::LeakyBucket(bucket) => with_wait!(bucket, LeakyBucket),
            Self::FixedWindow(_)
            | Self::CalendarWindow(_)
            | Self::SlidingWindow(_)
            | Self::SlidingLog(_)
            | Self::InFlight(_) => Ok(self),
        }
    }
}

/// The units of a lease or the longest wait in microseconds: a policy has one of them at most, and is moved with each decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseOrWait(u64);

impl LeaseOrWait {
    pub(super) const NONE: Self = Self(0);

    /// The wait of a strategy that was taken from a policy with one.
    pub(super) const fn of(strategy: &Strategy) -> Self {
        if strategy.is_unlimited() {
            return Self::NONE.with_unlimited();
        }
        let micros = match strategy {
            Strategy::TokenBucket(bucket) => bucket.meter().wait(),
            Strategy::Gcra(gcra) => gcra.meter().wait(),
            Strategy::LeakyBucket(_)
            | Strategy::FixedWindow(_)
            | Strategy::SlidingWindow(_)
            | Strategy::CalendarWindow(_)
            | Strategy::SlidingLog(_)
            | Strategy::InFlight(_) => 0,
        };
        if micros == 0 { Self::NONE } else { Self::wait_of(micros) }
    }

    pub(super) const fn lease(units: NonZeroU64) -> Self {
        Self(units.get())
    }

    const fn wait_of(micros: u64) -> Self {
        Self(WAIT | micros)
    }

    const fn with_wait(self, micros: u64) -> Self {
        Self(WAIT | (self.0 & MARKS) | micros)
    }

    pub(super) const fn without_lease(self) -> Self {
        if self.is_wait() { self } else { Self(self.0 & MARKS) }
    }

    pub(super) const fn units(self) -> Option<NonZeroU64> {
        if self.is_wait() { None } else { NonZeroU64::new(self.0 & !MARKS) }
    }

    const fn wait(self) -> Option<Duration> {
        if self.is_wait() { Some(Duration::from_micros(self.0 & !(WAIT | MARKS))) } else { None }
    }

    pub(super) const fn with_overrides(self) -> Self {
        Self(self.0 | OVERRIDES)
    }

    pub(super) const fn with_grant(self) -> Self {
        Self(self.0 | GRANTED)
    }

    pub(super) const fn is_granted(self) -> bool {
        self.0 & GRANTED != 0
    }

    #[inline]
    pub(super) const fn reads_overrides(self) -> bool {
        self.0 & OVERRIDES != 0
    }

    /// A policy that counts nothing, in which no request waits.
    pub(super) const fn with_unlimited(self) -> Self {
        Self((self.0 & MARKS) | UNLIMITED)
    }

    /// The policy of a caller that has a quota while the policy's own is none.
    pub(super) const fn with_quota(self) -> Self {
        Self(self.0 & !UNLIMITED)
    }

    #[inline]
    pub(super) const fn is_unlimited(self) -> bool {
        self.0 & UNLIMITED != 0
    }

    #[inline]
    pub(super) const fn has_exceptions(self) -> bool {
        self.0 & (OVERRIDES | UNLIMITED) != 0
    }

    const fn is_wait(self) -> bool {
        self.0 >= WAIT
    }
}

/// Marks a wait. A lease has fewer units, and a wait fewer microseconds.
const WAIT: u64 = 1 << 63;
/// Marks a policy that reads overrides, with a wait or with neither.
const OVERRIDES: u64 = 1 << 62;
/// Marks a policy with the quota of a grant.
const GRANTED: u64 = 1 << 61;
/// Marks a policy that counts nothing.
const UNLIMITED: u64 = 1 << 60;
const MARKS: u64 = OVERRIDES | GRANTED | UNLIMITED;

const NANOS_PER_MICRO: u32 = 1_000;

#[cfg(test)]
mod tests;
