//! An independent computation of what the algorithms must decide.
//!
//! Nothing here uses the arithmetic of `portcullis-core`: quantities are exact fractions over the period of the quota, in
//! 128 bits, decisions follow from what was charged and when, and waits are found by search.
//!
//! - [`Model`] is a quota with its algorithm; [`Model::promise`] checks a log of admissions against what the algorithm
//!   promises about every window, and returns the peak usage; [`Model::net_promise`] includes refunds, and
//!   [`Model::outflow`] checks the instants at which a leaky bucket releases requests.
//! - [`Reference`] is a [`SystemUnderTest`](crate::SystemUnderTest) that decides by definition. It requires that time does not go
//!   backwards and that quotas do not change.

mod calendar;
mod entries;
mod ledger;
mod level;
mod net;
mod outflow;
mod permits;
mod positions;
mod promise;
mod reference;
mod refills;
mod slots;
mod windows;

use std::ops::Range;
use std::time::Duration;

use portcullis_core::{
    Anchor, CalendarWindow, FixedWindow, Gcra, InFlight, LeakyBucket, Mistakes, Policy, PolicyError,
    PolicyName, PolicyPartError, PolicySettings, Quota, QuotaError, Refill, SlidingLog, SlidingWindow,
    Strategy, TokenBucket, WaitError, WindowTable,
};

pub use net::Event;
pub use promise::{Admission, Peaks, Violation};
pub use reference::Reference;

/// A quota and its algorithm.
///
/// ```
/// use portcullis::{Anchor, Quota};
/// use portcullis_testing::oracle::Model;
///
/// let model = Model::fixed_window(Quota::per_minute(5), Anchor::FirstRequest);
/// assert_eq!(model.strategy()?.tag(), "fixed_window");
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    pub(crate) quota: Quota,
    pub(crate) kind: Kind,
    /// The longest wait in microseconds; 0 if there is none.
    pub(crate) wait: u64,
    /// The largest debt in units; `None` for the default.
    pub(crate) debt: Option<u64>,
    /// The smallest and the largest quota of single callers.
    pub(crate) callers: Option<(Quota, Quota)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    TokenBucket,
    IntervalTokenBucket,
    Gcra,
    LeakyBucket,
    FixedWindow(Anchor),
    CalendarWindow(&'static WindowTable),
    SlidingWindow(u32),
    SlidingLog,
    InFlight,
}

impl Model {
    const PLAIN: Self =
        Self { quota: Quota::per_second(1), kind: Kind::Gcra, wait: 0, debt: None, callers: None };

    /// A token bucket. The burst defaults to the limit.
    pub const fn token_bucket(quota: Quota, refill: Refill) -> Self {
        let kind = match refill {
            Refill::Greedy => Kind::TokenBucket,
            Refill::Interval => Kind::IntervalTokenBucket,
        };
        Self { quota, kind, ..Self::PLAIN }
    }

    /// GCRA. The burst defaults to 1.
    pub const fn gcra(quota: Quota) -> Self {
        Self { quota, kind: Kind::Gcra, ..Self::PLAIN }
    }

    /// A leaky bucket as a queue. The burst defaults to the limit.
    pub const fn leaky_bucket(quota: Quota) -> Self {
        Self { quota, kind: Kind::LeakyBucket, ..Self::PLAIN }
    }

    /// A fixed window.
    pub const fn fixed_window(quota: Quota, anchor: Anchor) -> Self {
        Self { quota, kind: Kind::FixedWindow(anchor), ..Self::PLAIN }
    }

    /// A calendar window with `limit` units in each window of `table`. Its period is the shortest of them.
    ///
    /// # Errors
    ///
    /// If `limit` is zero or more than [`Quota::MAX_UNITS`].
    pub fn calendar_window(limit: u64, table: &'static WindowTable) -> Result<Self, QuotaError> {
        Ok(Self {
            quota: Quota::new(limit, calendar::shortest(table), None)?,
            kind: Kind::CalendarWindow(table),
            ..Self::PLAIN
        })
    }

    /// A sliding window with `slots` slots per period.
    pub const fn sliding_window(quota: Quota, slots: u32) -> Self {
        Self { quota, kind: Kind::SlidingWindow(slots), ..Self::PLAIN }
    }

    /// A sliding log.
    pub const fn sliding_log(quota: Quota) -> Self {
        Self { quota, kind: Kind::SlidingLog, ..Self::PLAIN }
    }

    /// A limit on requests in flight. Its period is the lease.
    ///
    /// # Errors
    ///
    /// If `limit` or `lease` is invalid for a [`Quota`].
    pub fn in_flight(limit: u64, lease: Duration) -> Result<Self, QuotaError> {
        Ok(Self { quota: Quota::new(limit, lease, None)?, kind: Kind::InFlight, ..Self::PLAIN })
    }

    /// Sets the [longest wait](Policy::wait_at_most). It changes the decisions of rate-based algorithms only.
    #[must_use]
    pub const fn wait_at_most(self, wait: Duration) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a policy waits for at most an hour")]
        Self { wait: wait.as_micros() as u64, ..self }
    }

    /// Sets the [largest debt](Policy::allow_debt) in units.
    #[must_use]
    pub const fn allow_debt(self, units: u64) -> Self {
        Self { debt: Some(units), ..self }
    }

    /// Declares [quotas of single callers](Policy::caller_quotas). They change no decision under the model's own quota, except after a
    /// step of the clock.
    #[must_use]
    pub const fn caller_quotas(self, smallest: Quota, largest: Quota) -> Self {
        Self { callers: Some((smallest, largest)), ..self }
    }

    /// Returns the strategy of `portcullis-core` that this model describes.
    ///
    /// # Errors
    ///
    /// If the quota exceeds a bound of its strategy.
    ///
    /// # Panics
    ///
    /// If the longest wait is more than an hour, or shorter than the period of a token bucket with interval refill. If the debt or the
    /// quotas of single callers exceed a bound.
    pub fn strategy(&self) -> Result<Strategy, QuotaError> {
        let errors = match self.policy(&PolicyName::literal("model")) {
            Ok(policy) => return Ok(*policy.strategy()),
            Err(errors) => errors,
        };
        match errors.first() {
            Some(PolicyError::Part {
                error: PolicyPartError::Quota(error) | PolicyPartError::Wait(WaitError::Quota { error, .. }),
                ..
            }) => Err(*error),
            _ => panic!("{errors}"),
        }
    }

    /// The policy of this name that the model describes.
    pub(crate) fn policy(&self, name: &PolicyName) -> Result<Policy, Mistakes<PolicyError>> {
        let settings = PolicySettings {
            max_wait: (self.wait > 0).then(|| Duration::from_micros(self.wait)),
            max_debt: self.debt,
            caller_quotas: self.callers,
            ..PolicySettings::default()
        };
        Policy::try_new(name.as_str(), self.without_wait(), settings)
    }

    fn without_wait(&self) -> Result<Strategy, QuotaError> {
        let quota = self.quota;
        Ok(match self.kind {
            Kind::TokenBucket => Strategy::TokenBucket(TokenBucket::new(quota)?),
            Kind::IntervalTokenBucket => {
                Strategy::TokenBucket(TokenBucket::new(quota)?.refilled(Refill::Interval))
            }
            Kind::Gcra => Strategy::Gcra(Gcra::new(quota)?),
            Kind::LeakyBucket => Strategy::LeakyBucket(LeakyBucket::new(quota)?),
            Kind::FixedWindow(anchor) => Strategy::FixedWindow(FixedWindow::new(quota)?.anchored(anchor)),
            Kind::CalendarWindow(table) => {
                Strategy::CalendarWindow(CalendarWindow::new(quota.limit(), table)?)
            }
            Kind::SlidingWindow(slots) => Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots)?),
            Kind::SlidingLog => Strategy::SlidingLog(SlidingLog::new(quota)?),
            Kind::InFlight => Strategy::InFlight(InFlight::new(quota.limit())?.with_lease(quota.period())?),
        })
    }

    /// The maximum number of units at one instant.
    pub(crate) fn capacity(&self) -> u64 {
        let limit = self.quota.limit();
        match self.kind {
            Kind::Gcra => self.quota.explicit_burst().unwrap_or(1),
            // One unit does not wait.
            Kind::LeakyBucket if self.wait > 0 => self.yielded_in_wait().saturating_add(1),
            _ if self.is_rate_based() => self.quota.explicit_burst().unwrap_or(limit),
            _ => limit,
        }
    }

    /// Whether it has a rate and a burst. The others have a limit on the units of a period.
    pub(crate) fn is_rate_based(&self) -> bool {
        match self.kind {
            Kind::TokenBucket | Kind::IntervalTokenBucket | Kind::Gcra | Kind::LeakyBucket => true,
            Kind::FixedWindow(_)
            | Kind::CalendarWindow(_)
            | Kind::SlidingWindow(_)
            | Kind::SlidingLog
            | Kind::InFlight => false,
        }
    }

    /// The largest debt in units, without what drains in the longest wait.
    pub(crate) fn debt(&self) -> u64 {
        self.debt.unwrap_or_else(|| self.capacity())
    }

    /// The window that a charge opens if no window is open, of a fixed or a calendar window.
    pub(crate) fn window_at(&self, now: u64) -> Range<i128> {
        match self.kind {
            Kind::CalendarWindow(table) => calendar::window_at(table, now),
            Kind::FixedWindow(anchor) => {
                let begin = windows::window_start(anchor, self.period(), now);
                begin..begin + i128::from(self.period())
            }
            _ => unreachable!("other algorithms have no such windows"),
        }
    }

    /// The whole units that the rate yields in the longest wait.
    fn yielded_in_wait(&self) -> u64 {
        let units = u128::from(self.wait) * u128::from(self.quota.limit()) / u128::from(self.period());
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// The time beyond the burst for which the level may be reserved, in microseconds: the longest wait, except that a leaky bucket
    /// has its queue, and that interval refill counts in whole periods.
    pub(crate) fn reserved(&self) -> u64 {
        match self.kind {
            Kind::TokenBucket | Kind::Gcra => self.wait,
            Kind::IntervalTokenBucket => self.wait - self.wait % self.period(),
            _ => 0,
        }
    }

    /// The period in microseconds.
    pub(crate) fn period(&self) -> u64 {
        u64::try_from(self.quota.period().as_micros()).expect("a quota bounds its period")
    }
}
