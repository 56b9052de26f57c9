//! The token bucket.

use core::num::NonZeroU64;

use super::meter::{Step, impl_meter_algorithm};
use super::modulo;
use crate::algorithm::Meter;
use crate::{Quota, QuotaError};

/// A bucket of `burst` tokens, each of which admits one unit, that refills at `limit` tokens per `period`.
///
/// Admits at most `burst + limit` units in any period. With greedy refill a client whose requests of cost 1 are farther
/// apart than `period / limit` is never denied; with interval refill that holds if the burst is at least the limit.
///
/// No task refills the bucket: the state is the instant at which it will be full, and the number of tokens is computed from
/// it. Mirrors: `lua/meter.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::store::{Strategy, TokenBucket};
/// use portcullis::{Quota, Refill, Timestamp};
///
/// let bucket = TokenBucket::new(Quota::per_minute(4))?;
/// let (greedy, interval) = (Strategy::from(bucket), Strategy::from(bucket.refilled(Refill::Interval)));
/// let (start, later) = (Timestamp::from_micros(0), Timestamp::from_micros(15_000_000));
/// let empty = greedy.decide(None, start, 4).after;
/// assert_eq!(greedy.snapshot(empty.as_ref(), later, 0, true).remaining, 1);
/// assert_eq!(interval.snapshot(empty.as_ref(), later, 0, true).remaining, 0);
/// assert_eq!(interval.snapshot(empty.as_ref(), later, 0, true).next_after.as_secs(), 45);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    meter: Meter,
}

/// When tokens are refilled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
// Exhaustive: a bucket is refilled all the time or at intervals.
pub enum Refill {
    /// One token per `period / limit`.
    #[default]
    Greedy,
    /// `limit` tokens together, at every multiple of the period since the Unix epoch.
    Interval,
}

impl TokenBucket {
    /// A bucket for `quota` with greedy refill; it holds `limit` tokens by default.
    ///
    /// # Errors
    ///
    /// If the burst is zero or more than [`Quota::MAX_UNITS`], or would take longer than 2^51 microseconds to replenish.
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        let Some(period) = NonZeroU64::new(quota.period_micros()) else { return Err(QuotaError::ZeroPeriod) };
        match Meter::for_quota(quota, quota.limit()) {
            Ok(meter) => Ok(Self { meter: meter.with_step(Step::greedy(period)) }),
            Err(error) => Err(error),
        }
    }

    /// Sets the kind of refill.
    #[must_use]
    pub const fn refilled(self, refill: Refill) -> Self {
        let period = self.meter.step().period();
        let step = match refill {
            Refill::Greedy => Step::greedy(period),
            Refill::Interval => Step::interval(period),
        };
        Self { meter: self.meter.with_step(step) }
    }

    /// Lets admitted units be delayed by up to `micros`: with interval refill rounded down to whole periods.
    pub(crate) const fn with_wait(self, micros: u64) -> Result<Self, QuotaError> {
        match self.meter.with_wait(micros.saturating_sub(modulo(micros, self.meter.grain()))) {
            Ok(meter) => Ok(Self { meter }),
            Err(error) => Err(error),
        }
    }

    /// When tokens are refilled. With a period of one microsecond both kinds are the same, and this is `Greedy`.
    pub const fn refill(&self) -> Refill {
        if self.meter.grain() == 1 { Refill::Greedy } else { Refill::Interval }
    }

    pub(crate) const fn period_micros(&self) -> u64 {
        self.meter.step().period().get()
    }

    /// The meter that a store computes with. Its level is the number of missing tokens.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

// With interval refill, a share is refilled at the same instants with its share of the tokens.
impl_meter_algorithm!(TokenBucket, queues: false);

#[cfg(test)]
mod tests;
