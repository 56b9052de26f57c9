//! The generic cell rate algorithm.

use super::meter::impl_meter_algorithm;
use crate::algorithm::Meter;
use crate::{Quota, QuotaError};

/// The generic cell rate algorithm: requests are spaced evenly by `period / limit`, with a tolerance that admits `burst`
/// units at one instant after an idle time.
///
/// Admits at most `burst + limit` units in any period, and a client whose requests of cost 1 are farther apart than
/// `period / limit` is never denied. The state is one theoretical arrival time.
///
/// Source: ITU-T Recommendation I.371, annex A. Mirrors: `lua/meter.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::store::{Gcra, Strategy};
/// use portcullis::{Quota, Timestamp};
///
/// let gcra = Strategy::from(Gcra::new(Quota::per_second(10))?);
/// let now = Timestamp::from_micros(0);
/// let first = gcra.decide(None, now, 1);
/// assert!(first.admitted);
/// assert!(!gcra.decide(first.after.as_ref(), Timestamp::from_micros(99_999), 1).admitted);
/// assert!(gcra.decide(first.after.as_ref(), Timestamp::from_micros(100_000), 1).admitted);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gcra {
    meter: Meter,
}

impl Gcra {
    /// GCRA for `quota`; the burst is 1 by default.
    ///
    /// # Errors
    ///
    /// If the burst is zero or more than [`Quota::MAX_UNITS`], or would take longer than 2^51 microseconds to replenish.
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        match Meter::for_quota(quota, 1) {
            Ok(meter) => Ok(Self { meter }),
            Err(error) => Err(error),
        }
    }

    /// Lets admitted units be delayed by up to `micros`.
    pub(crate) const fn with_wait(self, micros: u64) -> Result<Self, QuotaError> {
        match self.meter.with_wait(micros) {
            Ok(meter) => Ok(Self { meter }),
            Err(error) => Err(error),
        }
    }

    /// The meter that a store computes with.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl_meter_algorithm!(Gcra, queues: false);
