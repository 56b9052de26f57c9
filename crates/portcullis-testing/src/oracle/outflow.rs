//! The outflow of a leaky bucket, checked against its rate.

use super::promise::{Admission, Violation};
use super::{Kind, Model};

impl Model {
    /// Checks the releases of a leaky bucket against the promise of a constant outflow. The log lists the requests in the
    /// order in which they were admitted, each at the instant of its release. The promise is: first come, first served, and
    /// between any two requests at least the time that the rate needs for the units from the first to just before the last.
    ///
    /// Releases are rounded up to whole microseconds, so the time may be shorter by the rounding: less than a microsecond,
    /// and nothing where the period divides evenly. The check is not valid for logs with refunds, because a refunded request
    /// leaves its time unused.
    ///
    /// ```
    /// use portcullis::{Quota, Timestamp};
    /// use portcullis_testing::oracle::{Admission, Model};
    ///
    /// let model = Model::leaky_bucket(Quota::per_second(10));
    /// let release = |micros, cost| Admission { at: Timestamp::from_micros(micros), cost };
    /// assert!(model.outflow(&[release(0, 2), release(200_000, 1), release(300_000, 1)]).is_ok());
    /// assert!(model.outflow(&[release(0, 2), release(199_999, 1)]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If a request was released too early: the first such request, with the units from the worst request before it to just
    /// before it.
    ///
    /// # Panics
    ///
    /// If the model is not a leaky bucket.
    pub fn outflow(&self, log: &[Admission]) -> Result<(), Violation> {
        assert!(self.kind == Kind::LeakyBucket, "only a leaky bucket has an outflow");
        let (limit, period) = (i128::from(self.quota.limit()), i128::from(self.period()));
        let rounding = limit - greatest_common_divisor(limit, period);
        let (mut sum, mut lowest, mut last) = (0_i128, None::<(i128, Admission, i128)>, None);
        for admission in log.iter().filter(|admission| admission.cost > 0) {
            // The time that the units before it need, minus the time that has passed, in units of 1/limit microseconds.
            let need = sum * period - i128::from(admission.at.as_micros()) * limit;
            let (lowest_need, from, before) = *lowest.get_or_insert((need, *admission, sum));
            if need - lowest_need > rounding || last.is_some_and(|last| last > admission.at) {
                let charged = u64::try_from(sum - before).unwrap_or(u64::MAX);
                return Err(Violation { from: from.at, to: admission.at, charged });
            }
            if need < lowest_need {
                lowest = Some((need, *admission, sum));
            }
            (sum, last) = (sum + i128::from(admission.cost), Some(admission.at));
        }
        Ok(())
    }
}

pub(super) fn greatest_common_divisor(mut one: i128, mut other: i128) -> i128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
