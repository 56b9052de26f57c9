//! How limits are divided between the regions and the home store.

use std::num::NonZeroU32;

use portcullis_core::{
    Anchor, FixedWindow, Gcra, Policy, Quota, QuotaError, Refill, SlidingLog, SlidingWindow, Strategy,
    TokenBucket,
};
use portcullis_core::{CalendarWindow, StoreError, StoreErrorKind};

/// How each limit is divided: a part of it is set aside and divided among the regions, the rest is the home store's.
///
/// It must be the same in all regions, except for a region's own weight: the sum of all shares is the limit only then.
///
/// ```
/// use portcullis::regions::Shares;
/// use portcullis::{Policy, Quota};
///
/// // 15 % of each limit is set aside: each of three regions always has 5 %, home has 85 %.
/// let shares = Shares::equal(3)?.set_aside(15)?;
/// let api = Policy::fixed_window("api", Quota::per_minute(1_000));
/// assert_eq!(shares.region(&api)?.strategy().limit(), 50);
/// assert_eq!(shares.home(&api).map(|home| home.strategy().limit()), Some(850));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shares {
    weight: NonZeroU32,
    /// The weights of all regions.
    total: NonZeroU32,
    /// In percent.
    set_aside: u32,
}

impl Shares {
    /// What is set aside by default, in percent.
    pub const DEFAULT_SET_ASIDE: u32 = 20;

    /// Equal shares of this number of regions.
    ///
    /// # Errors
    ///
    /// If `regions` is zero.
    pub fn equal(regions: u32) -> Result<Self, SharesError> {
        Self::weighted(1, regions)
    }

    /// A region that has `weight` of `total`, the weights of all regions.
    ///
    /// # Errors
    ///
    /// If `weight` is zero or more than `total`.
    pub fn weighted(weight: u32, total: u32) -> Result<Self, SharesError> {
        match (NonZeroU32::new(weight), NonZeroU32::new(total)) {
            (Some(weight), Some(total)) if weight <= total => {
                Ok(Self { weight, total, set_aside: Self::DEFAULT_SET_ASIDE })
            }
            _ => Err(SharesError::Weight { weight, total }),
        }
    }

    /// Sets the part of each limit that is set aside and divided among the regions, in percent: from 1 to 99, 20 by default. It is
    /// what the regions can use while they do not reach home, and at most as much as a region's share is bought at a time.
    ///
    /// # Errors
    ///
    /// If `percent` is 0 or more than 99.
    pub fn set_aside(self, percent: u32) -> Result<Self, SharesError> {
        if (1..=99).contains(&percent) {
            Ok(Self { set_aside: percent, ..self })
        } else {
            Err(SharesError::SetAside { percent })
        }
    }

    /// The policy under which the region decides. If units of `policy` [can be bought](Self::home), that is the region's part of what
    /// is set aside, else its part of the whole limit, which is then divided among the regions alone. Rounded down.
    ///
    /// # Errors
    ///
    /// If the region's part of the whole limit has less than one unit, or if it takes a time beyond
    /// [`Quota::MAX_PERIOD`](portcullis_core::Quota::MAX_PERIOD) to fill.
    pub fn region(&self, policy: &Policy) -> Result<Policy, StoreError> {
        if is_constant(policy) {
            return Ok(policy.clone());
        }
        let instances = if self.is_purchasable(policy) { self.fixed_of(self.weight) } else { self.alone() };
        if policy.strategy().limit() < u64::from(instances.get()) {
            let message = format!(
                "policy {}: a limit or burst of {} cannot be divided: a region of weight {} of {} needs {instances}",
                policy.name(),
                policy.strategy().limit(),
                self.weight,
                self.total,
            );
            return Err(StoreError::new(StoreErrorKind::Unsupported, message));
        }
        policy.share_among(instances).map_err(|error| {
            StoreError::new(StoreErrorKind::Unsupported, format!("policy {}: {error}", policy.name()))
        })
    }

    /// The policy under which the home store sells units to the regions. `None` if the units of `policy` cannot be bought:
    ///
    /// - of a leaky bucket, and of a policy with a longest [wait](Policy::wait_at_most): the order of requests is that of one store;
    /// - of a limit on requests in flight: each unit is a request that is running;
    /// - of a fixed window that begins at the first request: the windows of two stores differ;
    /// - of a limit (burst) of which home's part, or the part of a region of weight 1 of what is set aside, is less than one unit. So
    ///   [weights](Self::weighted) are best small numbers.
    pub fn home(&self, policy: &Policy) -> Option<Policy> {
        if !self.is_purchasable(policy) {
            return None;
        }
        let strategy = self.home_strategy(policy.strategy())?.ok()?;
        Some(Policy::new(policy.name().clone(), strategy))
    }

    /// The limit, or burst, of the home store's share; 0 if units cannot be bought.
    pub(crate) fn home_limit(&self, policy: &Policy) -> u64 {
        if self.is_purchasable(policy) { self.of_home(policy.strategy().limit()) } else { 0 }
    }

    fn is_purchasable(&self, policy: &Policy) -> bool {
        let strategy = policy.strategy();
        let limit = strategy.limit();
        let is_sold = match strategy {
            Strategy::LeakyBucket(_) | Strategy::InFlight(_) => false,
            Strategy::FixedWindow(window) => window.anchor() != Anchor::FirstRequest,
            Strategy::TokenBucket(_) | Strategy::Gcra(_) => {
                matches!(self.home_strategy(strategy), Some(Ok(_)))
            }
            Strategy::CalendarWindow(_) | Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) => true,
        };
        is_sold
            && !is_constant(policy)
            && policy.max_wait().is_none()
            // The share of the lightest region, whatever the weight of this one is: all regions have to come to the same answer, else
            // what one has of the whole limit is sold to the others as well.
            && limit >= u64::from(self.fixed_of(NonZeroU32::MIN).get())
            && self.of_home(limit) > 0
    }

    fn home_strategy(&self, strategy: &Strategy) -> Option<Result<Strategy, QuotaError>> {
        let limit = self.of_home(strategy.limit());
        let of_period = |period| Quota::new(limit, period, None);
        Some(match strategy {
            Strategy::TokenBucket(bucket) => {
                let quota = self.of_quota(strategy.quota()?, bucket.refill() == Refill::Greedy);
                quota
                    .and_then(TokenBucket::new)
                    .map(|home| Strategy::TokenBucket(home.refilled(bucket.refill())))
            }
            Strategy::Gcra(_) => {
                self.of_quota(strategy.quota()?, true).and_then(Gcra::new).map(Strategy::Gcra)
            }
            Strategy::FixedWindow(window) => of_period(window.period())
                .and_then(FixedWindow::new)
                .map(|home| Strategy::FixedWindow(home.anchored(window.anchor()))),
            Strategy::CalendarWindow(window) => {
                CalendarWindow::new(limit, window.table()).map(Strategy::CalendarWindow)
            }
            Strategy::SlidingWindow(window) => of_period(window.period())
                .and_then(|quota| SlidingWindow::with_slots(quota, window.slots()))
                .map(Strategy::SlidingWindow),
            Strategy::SlidingLog(log) => {
                of_period(log.period()).and_then(SlidingLog::new).map(Strategy::SlidingLog)
            }
            Strategy::LeakyBucket(_) | Strategy::InFlight(_) => return None,
        })
    }

    /// Home's part of a rate and of its burst. The rate is exact in a longer period where that is possible.
    fn of_quota(&self, quota: Quota, may_be_longer: bool) -> Result<Quota, QuotaError> {
        let parts = u64::from(self.home_percent());
        let whole = quota.limit().saturating_mul(parts);
        let longer = quota.period().checked_mul(100).filter(|_| may_be_longer && !whole.is_multiple_of(100));
        // A burst that is the default would follow the limit, which may be that of a longer period.
        let burst = Some(self.of_home(quota.explicit_burst().unwrap_or(quota.limit())).max(1));
        match longer.and_then(|period| Quota::new(whole, period, burst).ok()) {
            Some(home) => Ok(home),
            None => Quota::new(self.of_home(quota.limit()), quota.period(), burst),
        }
    }

    fn of_home(&self, units: u64) -> u64 {
        let home = u128::from(units).saturating_mul(self.home_percent().into()) / 100;
        u64::try_from(home).unwrap_or(units)
    }

    const fn home_percent(&self) -> u32 {
        100_u32.saturating_sub(self.set_aside)
    }

    /// A region of this weight has one of this number of equal parts of each limit, beside home.
    fn fixed_of(&self, weight: NonZeroU32) -> NonZeroU32 {
        let parts = u64::from(self.total.get()).saturating_mul(100);
        instances(parts, u64::from(weight.get()).saturating_mul(self.set_aside.into()))
    }

    /// The region has one of this number of equal parts of each limit, without home.
    fn alone(&self) -> NonZeroU32 {
        instances(self.total.get().into(), self.weight.get().into())
    }
}

/// Rounded up, so that the sum of the shares is at most the whole.
/// Whether all requests are admitted, or none, in each region.
fn is_constant(policy: &Policy) -> bool {
    policy.is_unlimited() || policy.strategy().limit() == 0
}

fn instances(total: u64, part: u64) -> NonZeroU32 {
    let count = u32::try_from(total.div_ceil(part.max(1))).unwrap_or(u32::MAX);
    NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
}

/// Why limits cannot be divided like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharesError {
    /// The weight of a region is zero, or more than that of all.
    #[error("a region of weight {weight} among weights of {total} in sum: it must be from 1 to the sum")]
    Weight {
        /// The weight of the region.
        weight: u32,
        /// The sum of all weights.
        total: u32,
    },
    /// What is set aside is nothing, or everything.
    #[error("{percent} % set aside: it must be from 1 to 99")]
    SetAside {
        /// The percentage.
        percent: u32,
    },
}

#[cfg(test)]
mod tests;
