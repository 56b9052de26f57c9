//! How the quota of a policy is written.

use portcullis_core::{CalendarWindow, Quota, Refill, Strategy};

/// How a strategy is written in a file, so that its limit can be replaced.
pub(super) struct Form {
    strategy: Strategy,
    /// `None` for a calendar window, which has a limit alone.
    quota: Option<Quota>,
    /// The limit in this form.
    pub(super) limit: u64,
    /// The burst of a rate-based algorithm.
    burst: Option<u64>,
}

impl Form {
    /// `None` for requests in flight, whose number a log does not show.
    pub(super) fn of(strategy: &Strategy) -> Option<Self> {
        let strategy = *strategy;
        let (quota, burst) = match strategy {
            Strategy::InFlight(_) => return None,
            Strategy::CalendarWindow(_) => (None, None),
            Strategy::FixedWindow(_) | Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) => {
                (Some(strategy.quota()?), None)
            }
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                (Some(finer(&strategy)?), Some(strategy.limit()))
            }
        };
        let limit = quota.map_or(strategy.limit(), Quota::limit);
        Some(Self { strategy, quota, limit, burst })
    }

    /// The quota with another limit, and a burst that has grown or shrunk as much.
    fn quota(&self, limit: u64) -> Option<Quota> {
        let burst = self.burst.map(|burst| self.scaled(burst, limit));
        Quota::new(limit, self.quota?.period(), burst).ok()
    }

    fn scaled(&self, burst: u64, limit: u64) -> u64 {
        let scaled = (u128::from(burst) * u128::from(limit)).div_ceil(u128::from(self.limit)).max(1);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Quotas in the unit of the policy's own that differ from this limit by 5 % at most, the smaller first. A rate-based algorithm is compared in
    /// a longer unit than it has.
    pub(super) fn in_own_unit(&self, limit: u64) -> impl Iterator<Item = Quota> {
        let burst = self.burst.map(|burst| self.scaled(burst, limit));
        let own = self.strategy.quota().filter(|_| burst.is_some()).zip(self.quota);
        own.into_iter().flat_map(move |(own, finer)| {
            let periods = finer.period().as_micros() / own.period().as_micros().max(1);
            let nearest = u128::from(limit) / periods.max(1);
            [nearest, nearest + 1].into_iter().filter_map(move |rate| {
                let is_near =
                    rate > 0 && (rate * periods).abs_diff(u128::from(limit)) * 20 <= u128::from(limit);
                let rate = u64::try_from(rate).ok().filter(|_| is_near)?;
                Quota::new(rate, own.period(), burst).ok()
            })
        })
    }

    /// The strategy with another quota.
    pub(super) fn with_quota(&self, quota: Quota) -> Option<Strategy> {
        let mut written = serde_json::to_value(self.strategy).ok()?;
        *written.get_mut("quota")? = quota.to_string().into();
        serde_json::from_value(written).ok()
    }

    pub(super) fn strategy(&self, limit: u64) -> Option<Strategy> {
        if limit == self.limit {
            return Some(self.strategy);
        }
        if let Strategy::CalendarWindow(window) = self.strategy {
            return CalendarWindow::new(limit, window.table()).ok().map(Strategy::CalendarWindow);
        }
        self.with_quota(self.quota(limit)?)
    }

    /// The fields of a rules file.
    pub(super) fn text(&self, limit: u64) -> Option<String> {
        match self.quota {
            None => Some(format!("limit = {limit}")),
            Some(_) => self.quota(limit).map(written),
        }
    }
}

pub(super) fn written(quota: Quota) -> String {
    format!("quota = \"{quota}\"")
}

/// The rate of a strategy with a longer period, so that its limit has more than one digit. With refill in intervals the period matters.
fn finer(strategy: &Strategy) -> Option<Quota> {
    let mut quota = strategy.quota()?;
    if matches!(strategy, Strategy::TokenBucket(bucket) if bucket.refill() == Refill::Interval) {
        return Some(quota);
    }
    while quota.limit() < 60 {
        let longer = quota.limit().checked_mul(60).zip(quota.period().checked_mul(60));
        match longer.and_then(|(limit, period)| Quota::new(limit, period, None).ok()) {
            Some(longer) => quota = longer,
            None => break,
        }
    }
    Some(quota)
}
