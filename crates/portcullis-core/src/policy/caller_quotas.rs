//! Quotas of single callers under one policy.

mod error;

use alloc::sync::Arc;
use core::num::NonZeroU32;
use core::time::Duration;

pub use error::{CallerQuotaError, CallerQuotasError};

use super::unlimited::is_constant;
use super::wait::LeaseOrWait;
use super::{Policy, lease};
use crate::algorithm::Meter;
use crate::{
    CalendarWindow, FailureMode, FixedWindow, Gcra, InFlight, LeakyBucket, Quota, QuotaError, SlidingLog,
    SlidingWindow, Strategy, TokenBucket, or_panic,
};

/// The quotas that single callers may have under a policy. Both have one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuotaRange {
    smallest: Quota,
    largest: Quota,
    /// The quota of the caller, if the policy is the one of a caller.
    own: Option<Quota>,
}

impl Policy {
    /// Lets single callers have quotas of their own under this policy, from `smallest` to `largest`: for plans of customers, or
    /// limits from a database. [`with_quota`](Policy::with_quota) makes the policy of one caller.
    ///
    /// A quota is in the range if it has the period of the two, a limit from that of `smallest` to that of `largest`, and, under a
    /// rate-based algorithm, a burst from the one to the other. A burst that is not stated is the default of the algorithm. The
    /// policy's own quota is in the range, too. It applies to callers without a quota of their own. A calendar window has a limit
    /// and no quota: only the limits of the two count, and their period is any, the same for all.
    ///
    /// A state is kept under all of these quotas. So a level that a caller's quota cannot reach may be that of a larger quota, or of
    /// a slower one, and stays: the caller is denied until it has drained. Under a rate-based algorithm only a level above all of
    /// them is the result of a step of the clock, and is cut to the caller's full limit. This ceiling is the largest burst at the
    /// slowest rate, with the largest debt and the longest wait, rounded up by less than 2 %.
    ///
    /// It is not `const`, as it allocates. Declare the quotas after [`wait_at_most`](Policy::wait_at_most) and [`allow_debt`](Policy::allow_debt), which cannot be
    /// changed afterwards.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// let (free, business) = (Quota::per_minute(60), Quota::per_minute(6_000));
    /// let plans = Policy::token_bucket("api", free).caller_quotas(free, business);
    ///
    /// let starter = plans.with_quota(Quota::per_minute(600).burst(1_000))?;
    /// assert_eq!((starter.name(), starter.strategy().limit()), (plans.name(), 1_000));
    /// assert!(plans.with_quota(Quota::per_minute(60_000)).is_err());
    /// # Ok::<(), portcullis::store::CallerQuotaError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the two quotas have different periods, or another period than the policy's own quota; if a limit or burst of
    /// `smallest` is more than that of `largest`; if the policy's own quota is not in the range; if one of them exceeds a bound of the
    /// algorithm, with the longest wait, with the largest debt and in the [share](Policy::share) of one instance; under a rate-based
    /// algorithm, if the largest burst exceeds one at the slowest rate.
    #[must_use]
    #[track_caller]
    pub fn caller_quotas(mut self, smallest: Quota, largest: Quota) -> Self {
        or_panic(self.set_caller_quotas((smallest, largest)));
        self
    }

    /// The smallest and the largest quota that a single caller may have; `None` if all callers have the policy's own.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// let (free, business) = (Quota::per_minute(60), Quota::per_minute(6_000));
    /// let api = Policy::token_bucket("api", free);
    /// assert_eq!(api.quota_range(), None);
    /// assert_eq!(api.caller_quotas(free, business).quota_range(), Some((free, business)));
    /// ```
    pub fn quota_range(&self) -> Option<(Quota, Quota)> {
        self.caller_quotas.as_ref().map(|range| (range.smallest, range.largest))
    }

    /// The policy of a caller with a quota of its own: the same name and states, so that a caller whose quota changes keeps
    /// what was charged.
    ///
    /// The algorithm and the period stay the same, and so do the longest wait, the debt in units and the failure mode. A lease is at most the caller's
    /// burst (limit); there is none for a burst below [`MIN_LEASED_BURST`](Policy::MIN_LEASED_BURST).
    ///
    /// A quota of zero and [`Quota::UNLIMITED`] are in each range, whatever their period: such a caller gets nothing, or all. Its decisions
    /// do not depend on the store, so that the failure mode does not apply.
    ///
    /// # Errors
    ///
    /// If the policy declares no [`caller_quotas`](Policy::caller_quotas), or if the quota is not among them: if it has another
    /// period, a limit or burst outside of the range, or a burst under a window or log.
    pub fn with_quota(&self, quota: Quota) -> Result<Self, CallerQuotaError> {
        let policy = || self.name.clone();
        let Some(range) = &self.caller_quotas else {
            return Err(CallerQuotaError::NotDeclared { policy: policy(), quota });
        };
        let (smallest, largest) = (range.smallest, range.largest);
        let of_caller = |policy: Self| {
            let caller_quotas = Some(Arc::new(QuotaRange { smallest, largest, own: Some(quota) }));
            Self { caller_quotas, ..policy }
        };
        if quota.is_unlimited() {
            return Ok(if self.is_unlimited() { self.clone() } else { of_caller(self.without_limit()) });
        }
        let quota = if quota.is_zero() { quota.with_period(Some(smallest.period())) } else { quota };
        let period = smallest.period();
        if quota.period() != period {
            return Err(CallerQuotaError::OtherPeriod { policy: policy(), quota, period });
        }
        let size = self.strategy.size_of(quota);
        let within = quota.is_zero()
            || self.strategy.size_of(range.smallest).is_within(size)
                && size.is_within(self.strategy.size_of(range.largest));
        if !self.strategy.has_burst()
            && let Some(burst) = quota.explicit_burst()
        {
            return Err(CallerQuotaError::BurstNotSupported { policy: policy(), burst });
        }
        if !within {
            return Err(CallerQuotaError::OutOfRange { policy: policy(), quota, smallest, largest });
        }
        let strategy = self.strategy_for(quota).map_err(|error| CallerQuotaError::Quota {
            policy: policy(),
            quota,
            error,
        })?;
        // A caller with the policy's own quota has the policy itself.
        if strategy == self.strategy {
            return Ok(self.clone());
        }
        let lease_or_wait = match self.max_lease() {
            Some(units) => lease_of(&strategy, units.get()),
            None => self.lease_or_wait.with_quota(),
        };
        let policy = of_caller(Self { strategy, lease_or_wait, ..self.clone() });
        Ok(if quota.is_zero() { policy.decided_without_store() } else { policy })
    }

    /// The quota of the caller that the policy was [made](Policy::with_quota) for; `None` for a policy of all callers, which is that of a
    /// caller with the policy's own quota as well.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// let (free, pro) = (Quota::per_minute(60), Quota::per_minute(600));
    /// let plans = Policy::token_bucket("api", free).caller_quotas(free, pro);
    /// assert_eq!(plans.caller_quota(), None);
    /// assert_eq!(plans.with_quota(pro)?.caller_quota(), Some(pro));
    /// # Ok::<(), portcullis::store::CallerQuotaError>(())
    /// ```
    #[inline]
    pub fn caller_quota(&self) -> Option<Quota> {
        self.caller_quotas.as_ref()?.own
    }

    /// Whether the policy has a quota for one key: the quota of a [caller](Policy::with_quota) or of a [grant](Policy::is_granted).
    #[inline]
    pub fn is_individual(&self) -> bool {
        self.is_granted() || self.caller_quota().is_some()
    }

    pub(super) fn set_caller_quotas(
        &mut self,
        (smallest, largest): (Quota, Quota),
    ) -> Result<(), CallerQuotasError> {
        if let Some(quota) = [smallest, largest].into_iter().find(|quota| is_constant(*quota)) {
            return Err(CallerQuotasError::Constant { quota });
        }
        if self.strategy.is_unlimited() {
            // Its own period is any, and that of the callers is one.
            let quota = Quota::UNLIMITED.with_period(Some(smallest.period()));
            let own = self.strategy_for(quota).map_err(|error| CallerQuotasError::Quota { quota, error })?;
            *self = Self { digest: Self::new(self.name.clone(), own).digest, strategy: own, ..self.clone() };
        }
        self.strategy = self.validate_range(smallest, largest)?;
        self.caller_quotas = Some(Arc::new(QuotaRange { smallest, largest, own: None }));
        Ok(())
    }

    fn validate_range(&self, smallest: Quota, largest: Quota) -> Result<Strategy, CallerQuotasError> {
        let period = self.strategy.period().unwrap_or(smallest.period());
        for quota in [smallest, largest] {
            if quota.period() != period {
                return Err(CallerQuotasError::OtherPeriod { quota, period });
            }
            self.validate_quota(quota)?;
        }
        let [least, most] = [smallest, largest].map(|quota| self.strategy.size_of(quota));
        if !least.is_within(most) {
            return Err(CallerQuotasError::Reversed { smallest, largest });
        }
        if !self.is_between(smallest, largest) {
            return Err(CallerQuotasError::OwnQuotaOutOfRange { smallest, largest });
        }
        let range = QuotaRange { smallest, largest, own: None };
        let Some(slowest) = self.slowest(&range) else { return Ok(self.strategy) };
        let ceiling = self.validate_quota(slowest)?.ceiling_of_quotas();
        Ok(self.strategy.with_debt(self.strategy.debt().with_ceiling(ceiling)))
    }

    fn validate_quota(&self, quota: Quota) -> Result<Strategy, CallerQuotasError> {
        let strategy = self.strategy_for(quota).map_err(|error| CallerQuotasError::Quota { quota, error })?;
        let (units, most) = (strategy.debt().units().unwrap_or(0), strategy.max_debt());
        if units > most {
            return Err(CallerQuotasError::Debt { quota, units, most });
        }
        Ok(strategy)
    }

    /// The largest burst at the slowest rate; `None` under a window or log.
    fn slowest(&self, range: &QuotaRange) -> Option<Quota> {
        self.strategy.meter()?;
        let burst = self.strategy.size_of(range.largest).burst;
        Quota::new(range.smallest.limit(), range.smallest.period(), Some(burst)).ok()
    }

    /// The share with the ceiling of the shares of all quotas.
    pub(super) fn with_shared_ceiling(&self, share: Strategy, instances: NonZeroU32) -> Strategy {
        let slowest = self.caller_quotas.as_ref().and_then(|range| self.slowest(range));
        let slowest = slowest.and_then(|quota| self.strategy_for(quota).ok()?.share(instances).ok());
        let Some(slowest) = slowest else { return self.with_kept_ceiling(share) };
        let share = share.with_debt(share.debt().with_ceiling(slowest.ceiling_of_quotas()));
        if self.is_granted() { share.within_bounds() } else { share }
    }

    /// The share of a policy [without a debt](Self::without_debt) keeps its ceiling, so that a debt that the share has stays.
    fn with_kept_ceiling(&self, share: Strategy) -> Strategy {
        match self.strategy.debt().ceiling() {
            Some(ceiling) if share.debt().units() == Some(0) => {
                share.with_debt(share.debt().with_ceiling(ceiling))
            }
            _ => share,
        }
    }

    /// Whether the policy's own quota is in a range. A meter keeps only its rate, whose period is another one perhaps.
    fn is_between(&self, smallest: Quota, largest: Quota) -> bool {
        if self.is_constant() {
            return true;
        }
        let own = self.strategy.limit();
        let [least, most] = [smallest, largest].map(|quota| self.strategy.size_of(quota));
        match self.strategy.meter() {
            Some(meter) => {
                let is_queue = matches!(self.strategy, Strategy::LeakyBucket(_)) && self.max_wait().is_some();
                (is_queue || (least.burst <= own && own <= most.burst))
                    && !meter.is_slower_than(smallest)
                    && !meter.is_faster_than(largest)
            }
            None => least.limit <= own && own <= most.limit,
        }
    }

    /// The strategy of a caller with this quota and the policy's debt, whose share has to be valid as well.
    pub(super) fn strategy_for(&self, quota: Quota) -> Result<Strategy, QuotaError> {
        let strategy = self.strategy.of_quota(quota)?;
        let strategy = match self.max_wait() {
            Some(wait) => strategy.with_wait(crate::time::saturating_micros(wait))?,
            None => strategy,
        };
        if let FailureMode::Local { instances } = self.failure_mode() {
            strategy.share(instances)?;
        }
        let debt = self.strategy.debt();
        Ok(strategy.with_debt(if debt.ceiling().is_none() {
            debt.with_ceiling_of(strategy.debt())
        } else {
            debt
        }))
    }
}

/// The numbers of a quota under an algorithm.
#[derive(Clone, Copy)]
struct Size {
    limit: u64,
    /// Equal for all quotas of a window or log.
    burst: u64,
}

impl Size {
    const fn is_within(self, most: Self) -> bool {
        self.limit <= most.limit && self.burst <= most.burst
    }
}

impl Strategy {
    /// The meter of a rate-based strategy. `None` under windows, logs and limits on requests in flight.
    #[doc(hidden)]
    pub const fn meter(&self) -> Option<&Meter> {
        match self {
            Self::TokenBucket(bucket) => Some(bucket.meter()),
            Self::Gcra(gcra) => Some(gcra.meter()),
            Self::LeakyBucket(bucket) => Some(bucket.meter()),
            Self::FixedWindow(_)
            | Self::CalendarWindow(_)
            | Self::SlidingWindow(_)
            | Self::SlidingLog(_)
            | Self::InFlight(_) => None,
        }
    }

    /// The ceiling of all quotas, in microseconds, by the strategy of the slowest rate and the largest burst. The queue of a leaky
    /// bucket with a longest wait is rounded to whole units, so that of a faster rate may be longer, by less than a unit.
    pub(super) fn ceiling_of_quotas(&self) -> u64 {
        let Some(meter) = self.meter() else { return 0 };
        let rounding = if matches!(self, Self::LeakyBucket(_)) { 2 } else { 0 };
        meter.deepest_micros().saturating_add(meter.unit_micros().saturating_mul(rounding))
    }

    const fn has_burst(&self) -> bool {
        self.meter().is_some()
    }

    /// The period of the quota, if the algorithm keeps it.
    pub(crate) const fn period(&self) -> Option<Duration> {
        match self {
            Self::TokenBucket(bucket) => Some(Duration::from_micros(bucket.period_micros())),
            Self::FixedWindow(window) => Some(window.period()),
            Self::SlidingWindow(window) => Some(window.period()),
            Self::SlidingLog(log) => Some(log.period()),
            Self::Gcra(_) | Self::LeakyBucket(_) | Self::CalendarWindow(_) | Self::InFlight(_) => None,
        }
    }

    fn size_of(&self, quota: Quota) -> Size {
        let limit = quota.limit();
        let default = if matches!(self, Self::Gcra(_)) { 1 } else { limit };
        let burst = if self.has_burst() { quota.explicit_burst().unwrap_or(default) } else { 0 };
        Size { limit, burst }
    }

    /// Replaces the quota.
    pub(super) fn of_quota(&self, quota: Quota) -> Result<Self, QuotaError> {
        Ok(match self {
            Self::TokenBucket(bucket) => {
                Self::TokenBucket(TokenBucket::new(quota)?.refilled(bucket.refill()))
            }
            Self::Gcra(_) => Self::Gcra(Gcra::new(quota)?),
            Self::LeakyBucket(_) => Self::LeakyBucket(LeakyBucket::new(quota)?),
            Self::FixedWindow(window) => {
                Self::FixedWindow(FixedWindow::new(quota)?.anchored(window.anchor()))
            }
            Self::CalendarWindow(window) => match quota.explicit_burst() {
                Some(burst) => return Err(QuotaError::BurstNotSupported { burst }),
                None => Self::CalendarWindow(CalendarWindow::new(quota.limit(), window.table())?),
            },
            Self::SlidingWindow(window) => {
                Self::SlidingWindow(SlidingWindow::with_slots(quota, window.slots())?)
            }
            Self::SlidingLog(_) => Self::SlidingLog(SlidingLog::new(quota)?),
            Self::InFlight(permits) => match quota.explicit_burst() {
                Some(burst) => return Err(QuotaError::BurstNotSupported { burst }),
                None => Self::InFlight(InFlight::new(quota.limit())?.with_lease(permits.lease())?),
            },
        })
    }
}

fn lease_of(strategy: &Strategy, units: u64) -> LeaseOrWait {
    match lease::validate_size(strategy, units.min(strategy.limit())) {
        Ok(units) => LeaseOrWait::lease(units),
        Err(_) => LeaseOrWait::NONE,
    }
}

#[cfg(test)]
mod tests;
