//! What an algorithm promises about every window, held against a log.

use std::fmt;

use portcullis_core::{Anchor, Timestamp};

use super::windows::begin_of_window;
use super::{Kind, Model};

/// Something was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When.
    pub at: Timestamp,
    /// How many units.
    pub cost: u32,
}

/// How far a promise was reached: a promise that no log reaches is not tight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The most where the promise is one limit or one burst:
    ///
    /// - of a meter, by which the admissions of any stretch of time ran ahead of its rate, rounded down: the burst;
    /// - of windows, in one window: the limit;
    /// - of sliding slots, in any `period * (slots - 1) / slots`, both ends included: the limit;
    /// - of a log, from any instant until just before one period later: the limit.
    pub ahead: u64,
    /// The most from any instant to one period later, both ends included: of a meter the burst and what the rate yields
    /// meanwhile, else twice the limit.
    pub in_period: u64,
}

/// A promise that was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The first admission of the stretch.
    pub from: Timestamp,
    /// The last one.
    pub to: Timestamp,
    /// What was charged from the first to the last.
    pub charged: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} units were admitted from {} to {}, more than promised",
            self.charged, self.from, self.to
        )
    }
}

impl std::error::Error for Broken {}

impl Model {
    /// Holds the admissions of one key, of whatever order, against what the algorithm promises about every window:
    ///
    /// - a meter: from any admission to any later one, no more than the burst and what the rate yields in between; hence
    ///   burst + limit in any period. Where tokens come by the handful, the rate yields one limit at every multiple of the
    ///   period, of which no more than the burst fits in;
    /// - windows: the limit per window; hence twice the limit in any period;
    /// - sliding slots: the limit in any `period * (slots - 1) / slots`; hence twice the limit in any period;
    /// - a log: the limit from any instant until just before one period later; hence twice the limit if both ends count.
    ///
    /// A log with changes of the quota proves nothing. With refunds see [`Model::net_promise`].
    ///
    /// ```
    /// use portcullis_core::{Quota, Timestamp};
    /// use portcullis_testing::oracle::{Admission, Model};
    ///
    /// let model = Model::gcra(Quota::per_second(10).burst(5));
    /// let admit = |micros, cost| Admission { at: Timestamp::from_micros(micros), cost };
    /// let reached = model.promise(&[admit(0, 5), admit(100_000, 1)])?;
    /// assert_eq!((reached.ahead, reached.in_period), (5, 6));
    ///
    /// let broken = model.promise(&[admit(0, 5), admit(99_999, 1)]).unwrap_err();
    /// assert_eq!(broken.charged, 6);
    /// # Ok::<(), portcullis_testing::oracle::Broken>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a window got more: the worst stretch of a meter, the first such window otherwise.
    pub fn promise(&self, log: &[Admission]) -> Result<Reached, Broken> {
        let mut log: Vec<Admission> = log.iter().copied().filter(|admission| admission.cost > 0).collect();
        log.sort_by_key(|admission| admission.at);
        let (period, limit) = (self.period(), u64::from(self.quota.limit()));
        let burst = u64::from(self.most_at_once());
        let (ahead, more) = match self.kind {
            Kind::Tokens | Kind::Spacing | Kind::Queue => (self.ahead_of_the_rate(&log, 1)?, limit),
            Kind::Refills => (self.ahead_of_the_rate(&log, period)?, limit.min(burst)),
            Kind::Windows(anchor) => (self.in_a_window(anchor, &log)?, limit),
            Kind::Slots(slots) => {
                let slots = u64::from(slots);
                (most_within(&log, period / slots * (slots - 1), limit)?, limit)
            }
            Kind::Entries => (most_within(&log, period - 1, limit)?, limit),
        };
        let in_period = most_within(&log, period, burst + more)?;
        Ok(Reached { ahead, in_period })
    }

    /// The sum from i to j less the yield of the rate in between, for the worst i of every j: with the sums up to each
    /// admission, that is the present value less the lowest so far. In units of 1/period. The yield comes in steps of
    /// `grain` microseconds since the epoch.
    fn ahead_of_the_rate(&self, log: &[Admission], grain: u64) -> Result<u64, Broken> {
        let (limit, period) = (i128::from(self.quota.limit()), i128::from(self.period()));
        let bound = i128::from(self.most_at_once()) * period;
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
                return Err(Broken { from: log[from].at, to: admission.at, charged });
            }
            greatest = greatest.max(ahead);
        }
        Ok(u64::try_from(greatest / period).unwrap_or(u64::MAX))
    }

    fn in_a_window(&self, anchor: Anchor, log: &[Admission]) -> Result<u64, Broken> {
        let (mut begin, mut charged, mut greatest) = (None::<i128>, 0, 0);
        let mut from = Timestamp::EPOCH;
        for admission in log {
            let at = i128::from(admission.at.as_micros());
            if begin.is_none_or(|begin| at >= begin + i128::from(self.period())) {
                begin = Some(begin_of_window(anchor, self.period(), admission.at.as_micros()));
                (from, charged) = (admission.at, 0);
            }
            charged += u64::from(admission.cost);
            if charged > self.quota.limit().into() {
                return Err(Broken { from, to: admission.at, charged });
            }
            greatest = greatest.max(charged);
        }
        Ok(greatest)
    }
}

/// The most in any stretch of `span` microseconds, both ends included.
fn most_within(log: &[Admission], span: u64, bound: u64) -> Result<u64, Broken> {
    let (mut first, mut charged, mut greatest) = (0, 0, 0);
    for admission in log {
        charged += u64::from(admission.cost);
        while log[first].at.as_micros() + span < admission.at.as_micros() {
            charged -= u64::from(log[first].cost);
            first += 1;
        }
        if charged > bound {
            return Err(Broken { from: log[first].at, to: admission.at, charged });
        }
        greatest = greatest.max(charged);
    }
    Ok(greatest)
}
