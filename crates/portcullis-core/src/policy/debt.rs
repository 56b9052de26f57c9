//! The debt that settlements may leave under a policy.

use crate::algorithm::debt::Debt;
use crate::{Policy, Strategy};

/// Why settlements cannot leave such a debt under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DebtError {
    /// The debt is more than the algorithm keeps for this quota.
    #[error("a debt of {units} units is too large: at this limit and rate it is at most {most}")]
    TooLarge {
        /// The units of the debt.
        units: u64,
        /// The largest debt of a policy with this quota.
        most: u64,
    },
    /// The policy limits requests [in flight](crate::InFlight), of which none is held beyond the limit.
    #[error("a limit on requests in flight has no debt: a permit is held or it is not")]
    InFlight,
    /// The policy declares [quotas of single callers](Policy::caller_quotas) for another debt.
    #[error("the quotas of single callers are declared already: set the debt before them")]
    AfterCallerQuotas,
}

impl DebtError {
    /// Panics on an invalid literal.
    #[track_caller]
    const fn panic(self) -> ! {
        match self {
            Self::TooLarge { .. } => panic!("the debt is too large for the limit and the rate of the policy"),
            Self::InFlight => panic!("a limit on requests in flight has no debt"),
            Self::AfterCallerQuotas => panic!("a debt is set before the quotas of single callers"),
        }
    }
}

impl Policy {
    /// Lets settlements leave a debt of up to `units` units beyond the full limit, instead of one burst (limit).
    ///
    /// A debt is what a [settlement](crate::store::Store::settle) charges although it does not fit. Nothing is admitted until it is
    /// replenished. What exceeds the bound is not charged, and is in [`Settlement::uncharged`](crate::Settlement::uncharged). Allow a
    /// larger debt where one request may use more than the burst, such as a long answer of a language model, and a smaller one, or 0,
    /// where no client must wait for long.
    ///
    /// With a longest [wait](Policy::wait_at_most) the debt is beyond the burst and what drains in the wait; by default it is as
    /// large as the two. One of several instances that share the policy by themselves has a [share](Policy::share) of the debt.
    ///
    /// | strategy | largest debt |
    /// |---|---|
    /// | rate-based | what is replenished in 2^51 microseconds (about 71 years), at most [`Quota::MAX_UNITS`](crate::Quota::MAX_UNITS) |
    /// | fixed and calendar window | [`Quota::MAX_UNITS`](crate::Quota::MAX_UNITS) |
    /// | sliding window | with the limit twice [`SlidingWindow::MAX_LIMIT`](crate::SlidingWindow::MAX_LIMIT) |
    /// | sliding log | with the limit twice [`SlidingLog::MAX_LIMIT`](crate::SlidingLog::MAX_LIMIT), 200 000 units, which bounds its memory |
    /// | requests in flight | 0: a permit is held or not |
    ///
    /// ```
    /// use portcullis::{Policy, Quota, Timestamp};
    ///
    /// const TOKENS: Policy = Policy::token_bucket("tokens", Quota::per_minute(1_000)).allow_debt(50_000);
    /// assert_eq!(TOKENS.max_debt(), Some(50_000));
    ///
    /// let charged = TOKENS.strategy().force_charge(&mut None, Timestamp::EPOCH, 60_000);
    /// assert_eq!((charged.charged, charged.uncharged), (51_000, 9_000));
    /// ```
    ///
    /// # Panics
    ///
    /// If the debt exceeds the bound of the algorithm, which is 0 for requests in flight, or if the policy declares
    /// [quotas of single callers](Policy::caller_quotas).
    #[must_use]
    #[track_caller]
    pub const fn allow_debt(mut self, units: u64) -> Self {
        match self.set_debt(units) {
            Ok(()) => self,
            Err(error) => error.panic(),
        }
    }

    /// The largest [debt](Policy::allow_debt) that was set, in units; `None` for one burst (limit), the default.
    pub const fn max_debt(&self) -> Option<u64> {
        self.strategy.debt().units()
    }

    pub(super) const fn set_debt(&mut self, units: u64) -> Result<(), DebtError> {
        if self.caller_quotas.is_some() {
            return Err(DebtError::AfterCallerQuotas);
        }
        let most = self.strategy.max_debt();
        if units > most {
            if let Strategy::InFlight(_) = self.strategy {
                return Err(DebtError::InFlight);
            }
            return Err(DebtError::TooLarge { units, most });
        }
        self.strategy = self.strategy.with_debt(self.strategy.debt().with_units(units));
        Ok(())
    }

    /// The policy for a settlement that charges what fits and no more. A debt that the state has already stays: the
    /// [ceiling](Strategy::ceiling_of_quotas) is that of the policy.
    #[doc(hidden)]
    #[must_use]
    pub fn without_debt(&self) -> Self {
        let debt = self.strategy.debt().with_units(0);
        let reached = self.strategy.ceiling_of_quotas();
        let debt = if debt.ceiling().is_some() || reached == 0 { debt } else { debt.with_ceiling(reached) };
        Self { strategy: self.strategy.with_debt(debt), ..self.clone() }
    }
}

impl Strategy {
    pub(super) const fn debt(&self) -> Debt {
        match self {
            Self::TokenBucket(bucket) => bucket.meter().debt(),
            Self::Gcra(gcra) => gcra.meter().debt(),
            Self::LeakyBucket(bucket) => bucket.meter().debt(),
            Self::FixedWindow(window) => window.debt(),
            Self::CalendarWindow(window) => window.debt(),
            Self::SlidingWindow(window) => window.debt(),
            Self::SlidingLog(log) => log.debt(),
            Self::InFlight(_) => Debt::DEFAULT,
        }
    }

    /// The largest debt that the quota permits.
    pub(super) const fn max_debt(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.meter().max_debt(),
            Self::Gcra(gcra) => gcra.meter().max_debt(),
            Self::LeakyBucket(bucket) => bucket.meter().max_debt(),
            Self::FixedWindow(window) => window.max_debt(),
            Self::CalendarWindow(window) => window.max_debt(),
            Self::SlidingWindow(window) => window.max_debt(),
            Self::SlidingLog(log) => log.max_debt(),
            Self::InFlight(_) => 0,
        }
    }

    /// Sets the debt, at most [`max_debt`](Strategy::max_debt).
    pub(super) const fn with_debt(self, debt: Debt) -> Self {
        match self {
            Self::TokenBucket(bucket) => Self::TokenBucket(bucket.with_debt(debt)),
            Self::Gcra(gcra) => Self::Gcra(gcra.with_debt(debt)),
            Self::LeakyBucket(bucket) => Self::LeakyBucket(bucket.with_debt(debt)),
            Self::FixedWindow(window) => Self::FixedWindow(window.with_debt(debt)),
            Self::CalendarWindow(window) => Self::CalendarWindow(window.with_debt(debt)),
            Self::SlidingWindow(window) => Self::SlidingWindow(window.with_debt(debt)),
            Self::SlidingLog(log) => Self::SlidingLog(log.with_debt(debt)),
            Self::InFlight(_) => self,
        }
    }
}

#[cfg(test)]
mod tests;
