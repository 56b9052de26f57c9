//! The leaky bucket as a queue.

use super::meter::impl_meter_algorithm;
use crate::algorithm::Meter;
use crate::{Quota, QuotaError};

/// A queue with constant outflow: one unit leaves it per `period / limit`, and it holds at most `burst` units.
///
/// An admitted request has a delay until its slot; a full queue denies. An idle queue admits `burst` units at one instant,
/// with delays of 0 to `burst - 1` intervals. Slots are reserved in the order of admission, across all processes. A request
/// of cost `n` takes `n` slots and proceeds at the first one. The algorithm does not know whether a request still waits for
/// its slot. If a request leaves the queue, refund its slot by a receipt with [`if_newest`](crate::Receipt::if_newest).
///
/// Admits at most `burst + limit` units in any period, and one unit *proceeds* per interval. A client whose requests of cost
/// 1 are farther apart than `period / limit` is neither denied nor delayed.
///
/// Source: ITU-T Recommendation I.371, annex A, read as a queue. Mirrors: `lua/meter.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::store::{LeakyBucket, Strategy};
/// use portcullis::{Quota, Timestamp};
///
/// let queue = Strategy::from(LeakyBucket::new(Quota::per_second(10).burst(3))?);
/// let now = Timestamp::from_micros(0);
/// let mut state = None;
/// let mut delays = [0; 3];
/// for delay in &mut delays {
///     assert!(queue.evaluate(state.as_ref(), now, 1).admitted);
///     queue.charge(&mut state, now, 1);
///     *delay = queue.snapshot(state.as_ref(), now, 1, true).delay.as_millis();
/// }
/// assert_eq!(delays, [0, 100, 200]);
/// assert!(!queue.evaluate(state.as_ref(), now, 1).admitted);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    meter: Meter,
}

impl LeakyBucket {
    /// A queue for `quota`; it holds `limit` units by default.
    ///
    /// # Errors
    ///
    /// If the burst is zero or more than [`Quota::MAX_UNITS`], or would take longer than 2^51 microseconds to replenish.
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        match Meter::for_quota(quota, quota.limit()) {
            Ok(meter) => Ok(Self { meter }),
            Err(error) => Err(error),
        }
    }

    /// Sets the length of the queue to the units that drain in `micros`, and one that does not wait.
    pub(crate) const fn with_wait(self, micros: u64) -> Result<Self, QuotaError> {
        match self.meter.with_burst(self.meter.units_in(micros).saturating_add(1)) {
            Ok(meter) => Ok(Self { meter }),
            Err(error) => Err(error),
        }
    }

    /// The meter that a store computes with. Its level is the number of units in the queue.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl_meter_algorithm!(LeakyBucket, queues: true);
