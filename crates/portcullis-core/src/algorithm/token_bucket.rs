//! The token bucket.

use core::num::{NonZeroU32, NonZeroU64};

use super::meter::MeterAlgorithm;
use crate::{Meter, Quota, QuotaError};

/// A bucket of `burst` tokens, each admitting one unit, that fills at `limit` tokens per `period`.
///
/// Admits at most `burst + limit` units in any period. With greedy refill a caller whose requests of cost 1 are farther
/// apart than `period / limit` is never denied; with interval refill that holds if the burst is at least the limit.
///
/// No process refills anything: the state is the instant at which the bucket will be full, and the tokens follow from
/// it. Mirrors: `lua/meter.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis_core::{Algorithm, Quota, Refill, Timestamp, TokenBucket};
///
/// let greedy = TokenBucket::new(Quota::per_minute(4))?;
/// let interval = greedy.refilled(Refill::Interval);
/// let (start, later) = (Timestamp::from_micros(0), Timestamp::from_micros(15_000_000));
/// let empty = greedy.decide(None, start, 4).after;
/// assert_eq!(greedy.snapshot(empty.as_ref(), later, 0, true).remaining, 1);
/// assert_eq!(interval.snapshot(empty.as_ref(), later, 0, true).remaining, 0);
/// assert_eq!(interval.snapshot(empty.as_ref(), later, 0, true).next_after.as_secs(), 45);
/// # Ok::<(), portcullis_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    meter: Meter,
    /// The period, in microseconds.
    period: NonZeroU64,
}

/// When tokens come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refill {
    /// Each as soon as it is due: one per `period / limit`.
    #[default]
    Greedy,
    /// `limit` of them together, at every multiple of the period since the Unix epoch.
    Interval,
}

impl TokenBucket {
    /// A bucket for `quota` that is refilled greedily; without a burst, it holds `limit` tokens.
    ///
    /// # Errors
    ///
    /// If the quota exceeds a bound of [`Meter::new`].
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        let Some(period) = NonZeroU64::new(quota.period_micros()) else { return Err(QuotaError::ZeroPeriod) };
        match Meter::for_quota(quota, quota.limit()) {
            Ok(meter) => Ok(Self { meter, period }),
            Err(error) => Err(error),
        }
    }

    /// The same bucket, refilled so.
    #[must_use]
    pub const fn refilled(self, refill: Refill) -> Self {
        let grain = match refill {
            Refill::Greedy => NonZeroU64::MIN,
            Refill::Interval => self.period,
        };
        Self { meter: self.meter.with_grain(grain), ..self }
    }

    /// A share is refilled at the same instants, by its share.
    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        match self.meter.share(instances) {
            Ok(meter) => Ok(Self { meter, period: self.period }),
            Err(error) => Err(error),
        }
    }

    /// When tokens come back. A period of one microsecond refills greedily either way.
    pub const fn refill(&self) -> Refill {
        if self.meter.grain() == 1 { Refill::Greedy } else { Refill::Interval }
    }

    /// The meter underneath, whose level is the tokens that are missing: what a store computes with.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl MeterAlgorithm for TokenBucket {
    const QUEUES: bool = false;

    fn meter(&self) -> &Meter {
        &self.meter
    }
}

#[cfg(test)]
mod tests;
