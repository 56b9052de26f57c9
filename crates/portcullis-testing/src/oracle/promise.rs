//! Checks a log of admissions against what an algorithm promises about every window.

use portcullis_core::Timestamp;

use super::{Kind, Model};

/// An admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: tests of promises build it.
pub struct Admission {
    /// When.
    pub at: Timestamp,
    /// How many units.
    pub cost: u64,
}

/// The highest usage in a log. It shows whether a promise is tight: some log must reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: plain figures of a report.
pub struct Peaks {
    /// The highest usage where the promise is one limit or one burst:
    ///
    /// - rate-based algorithms: the units by which admissions exceeded the rate in any stretch of time, rounded down; the
    ///   promise is the burst;
    /// - fixed and calendar windows: the units in one window; the promise is the limit;
    /// - sliding windows: the units in any `period * (slots - 1) / slots`, both ends included; the promise is the limit;
    /// - logs: the units from any instant until just before one period later; the promise is the limit.
    pub ahead: u64,
    /// The highest usage from any instant to one period later, both ends included. The promise is the burst plus what the
    /// rate yields in a period for rate-based algorithms, and twice the limit for the others. The period of calendar windows is the
    /// shortest of them.
    pub in_period: u64,
}

/// A stretch of a log that exceeds the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{charged} units were admitted from {from} to {to}, more than promised")]
// Exhaustive: plain figures of a report.
pub struct Violation {
    /// The first admission of the stretch.
    pub from: Timestamp,
    /// The last one.
    pub to: Timestamp,
    /// The units charged from the first to the last.
    pub charged: u64,
}

impl Model {
    /// Checks the admissions of one key, in any order, against what the algorithm promises about every window:
    ///
    /// - rate-based algorithms: from any admission to any later one, at most the burst plus what the rate yields in between;
    ///   hence burst + limit in any period. With a [longest wait](Model::wait_at_most) this is the promise about the instants at
    ///   which requests proceed: check them against the model without the wait. With interval refill, the rate yields one limit at every multiple of the period,
    ///   of which at most the burst fits;
    /// - fixed and calendar windows: the limit per window; hence twice the limit in any period;
    /// - sliding windows: the limit in any `period * (slots - 1) / slots`; hence twice the limit in any period;
    /// - logs, and limits on requests in flight whose permits are not released: the limit from any instant until just before one period later; hence twice the limit if both ends count.
    ///
    /// The check is not valid for logs with changes of the quota. For refunds see [`Model::net_promise`].
    ///
    /// ```
    /// use portcullis::{Quota, Timestamp};
    /// use portcullis_testing::oracle::{Admission, Model};
    ///
    /// let model = Model::gcra(Quota::per_second(10).burst(5));
    /// let admit = |micros, cost| Admission { at: Timestamp::from_micros(micros), cost };
    /// let peaks = model.promise(&[admit(0, 5), admit(100_000, 1)])?;
    /// assert_eq!((peaks.ahead, peaks.in_period), (5, 6));
    ///
    /// let violation = model.promise(&[admit(0, 5), admit(99_999, 1)]).unwrap_err();
    /// assert_eq!(violation.charged, 6);
    /// # Ok::<(), portcullis_testing::oracle::Violation>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a window exceeds its bound: the worst stretch for rate-based algorithms, the first such window otherwise.
    pub fn promise(&self, log: &[Admission]) -> Result<Peaks, Violation> {
        let mut log: Vec<Admission> = log.iter().copied().filter(|admission| admission.cost > 0).collect();
        log.sort_by_key(|admission| admission.at);
        let (period, limit) = (self.period(), self.quota.limit());
        let burst = self.capacity();
        let (ahead, yielded) = match self.kind {
            Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket => (self.ahead_of_the_rate(&log, 1)?, limit),
            Kind::IntervalTokenBucket => (self.ahead_of_the_rate(&log, period)?, limit.min(burst)),
            Kind::FixedWindow(_) | Kind::CalendarWindow(_) => (self.in_a_window(&log)?, limit),
            Kind::SlidingWindow(slots) => {
                let slots = u64::from(slots);
                (most_within(&log, period / slots * (slots - 1), limit)?, limit)
            }
            Kind::SlidingLog | Kind::InFlight => (most_within(&log, period - 1, limit)?, limit),
        };
        let in_period = most_within(&log, period, burst + yielded)?;
        Ok(Peaks { ahead, in_period })
    }

    /// The sum from i to j minus the yield of the rate in between, for the worst i of every j. With prefix sums that is the
    /// current value minus the lowest so far, in units of 1/period. The yield comes in steps of `grain` microseconds since
    /// the epoch.
    fn ahead_of_the_rate(&self, log: &[Admission], grain: u64) -> Result<u64, Violation> {
        let (limit, period) = (i128::from(self.quota.limit()), i128::from(self.period()));
        let bound = i128::from(self.capacity()) * period;
        let (mut sum, mut lowest, mut greatest) = (0_i128, None::<(i128, usize, i128)>, 0);
        for (index, admission) in log.iter().enumerate() {
            let at = admission.at.as_micros();
            let yielded = i128::from(at - at % grain) * limit;
            let before = sum * period - yielded;
            if lowest.is_none_or(|(lowest, ..)| before < lowest) {
                lowest = Some((before, index, sum));
            }
            sum += i128::from(admission.cost);
            let (lowest, from, sum_before) = lowest.expect("it was set above");
            let ahead = sum * period - yielded - lowest;
            if ahead > bound {
                let charged = u64::try_from(sum - sum_before).unwrap_or(u64::MAX);
                return Err(Violation { from: log[from].at, to: admission.at, charged });
            }
            greatest = greatest.max(ahead);
        }
        Ok(u64::try_from(greatest / period).unwrap_or(u64::MAX))
    }

    fn in_a_window(&self, log: &[Admission]) -> Result<u64, Violation> {
        let (mut open, mut charged, mut greatest) = (0..0, 0, 0);
        let mut from = Timestamp::EPOCH;
        for admission in log {
            let at = i128::from(admission.at.as_micros());
            if at >= open.end {
                open = self.window_at(admission.at.as_micros());
                (from, charged) = (admission.at, 0);
            }
            charged += admission.cost;
            if charged > self.quota.limit() {
                return Err(Violation { from, to: admission.at, charged });
            }
            greatest = greatest.max(charged);
        }
        Ok(greatest)
    }
}

/// The most units in any stretch of `span` microseconds, both ends included.
fn most_within(log: &[Admission], span: u64, bound: u64) -> Result<u64, Violation> {
    let (mut first, mut charged, mut greatest) = (0, 0, 0);
    for admission in log {
        charged += admission.cost;
        while log[first].at.as_micros() + span < admission.at.as_micros() {
            charged -= log[first].cost;
            first += 1;
        }
        if charged > bound {
            return Err(Violation { from: log[first].at, to: admission.at, charged });
        }
        greatest = greatest.max(charged);
    }
    Ok(greatest)
}
