//! The quota of a strategy, and its text.

use core::fmt;
use core::time::Duration;

use super::Strategy;
use crate::Quota;
use crate::algorithm::Meter;

impl Strategy {
    /// Whether the strategy is that of [`Quota::UNLIMITED`]. Its limit is then one more than the highest one.
    pub const fn is_unlimited(&self) -> bool {
        self.limit() == Quota::UNLIMITED.limit()
    }

    /// The quota with which the strategy is constructed again, to the bit. The burst is left out where it is the strategy's default.
    ///
    /// GCRA and the leaky bucket keep their rate in lowest terms, so their quota is per shortest unit of time in which a whole number
    /// of units is replenished: 5 in 15 minutes are `20/h`. `None` for calendar windows, which differ in length, for requests in flight,
    /// and for some shares of a policy: a token bucket that gains a fraction of a unit per period, and an interval that needs a period
    /// longer than [`Quota::MAX_PERIOD`].
    ///
    /// ```
    /// use portcullis::layer::Concurrency;
    /// use portcullis::{Policy, Quota};
    ///
    /// let quota = Quota::per_second(10).burst(20);
    /// assert_eq!(Policy::token_bucket("search", quota).strategy().quota(), Some(quota));
    /// assert_eq!(Policy::from(Concurrency::new("exports", 4)).strategy().quota(), None);
    /// ```
    pub fn quota(&self) -> Option<Quota> {
        let of_limit = |limit, period| Quota::new(limit, period, None).ok();
        match self {
            // Its windows differ in length, and permits have no period.
            Strategy::CalendarWindow(_) | Strategy::InFlight(_) => None,
            _ if self.is_unlimited() => Some(Quota::UNLIMITED),
            Strategy::Gcra(gcra) if self.limit() == 0 => zero(gcra.meter()),
            Strategy::LeakyBucket(bucket) if self.limit() == 0 => zero(bucket.meter()),
            Strategy::TokenBucket(bucket) if self.limit() == 0 => {
                of_limit(0, Duration::from_micros(bucket.period_micros()))
            }
            Strategy::TokenBucket(bucket) => {
                let quota = per(bucket.meter(), bucket.period_micros())?;
                with_burst(quota, bucket.meter().burst(), quota.limit())
            }
            Strategy::Gcra(gcra) => with_burst(quotas(gcra.meter()).next()?, gcra.meter().burst(), 1),
            Strategy::LeakyBucket(bucket) => {
                let burst = bucket.meter().burst();
                let without_burst = quotas(bucket.meter()).find(|quota| quota.limit() == burst);
                without_burst.or_else(|| with_burst(quotas(bucket.meter()).next()?, burst, 0))
            }
            Strategy::FixedWindow(window) => of_limit(window.limit(), window.period()),
            Strategy::SlidingWindow(window) => of_limit(window.limit(), window.period()),
            Strategy::SlidingLog(log) => of_limit(log.limit(), log.period()),
        }
    }
}

impl fmt::Display for Strategy {
    /// Prints the algorithm and its quota, or its limit: `token_bucket 10/s burst 20`, `in_flight 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota() {
            Some(quota) => write!(f, "{} {quota}", self.tag()),
            None if self.is_unlimited() => write!(f, "{} {}", self.tag(), Quota::UNLIMITED),
            None => write!(f, "{} {}", self.tag(), self.limit()),
        }
    }
}

/// A meter of zero units has an interval of one period.
fn zero(meter: &Meter) -> Option<Quota> {
    Quota::new(0, Duration::from_micros(meter.interval().get()), None).ok()
}

fn with_burst(quota: Quota, burst: u64, default: u64) -> Option<Quota> {
    Quota::new(quota.limit(), quota.period(), (burst != default).then_some(burst)).ok()
}

/// The quotas at the rate of a meter: those per unit of time, the shortest unit first, then the one in lowest terms.
fn quotas(meter: &Meter) -> impl Iterator<Item = Quota> {
    let lowest = Quota::new(meter.denominator(), Duration::from_micros(meter.interval().get()), None).ok();
    UNITS.into_iter().filter_map(move |micros| per(meter, micros)).chain(lowest)
}

/// The quota at the rate of a meter with this period, if its limit is a whole number.
fn per(meter: &Meter, period_micros: u64) -> Option<Quota> {
    let parts = u128::from(period_micros).saturating_mul(meter.denominator().into());
    let interval = u128::from(meter.interval().get());
    if !parts.is_multiple_of(interval) {
        return None;
    }
    let limit = u64::try_from(parts.checked_div(interval)?).ok()?;
    Quota::new(limit, Duration::from_micros(period_micros), None).ok()
}

/// A second, a minute, an hour, a day and a week, in microseconds.
const UNITS: [u64; 5] = [1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 604_800_000_000];

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use crate::{Concurrency, Policy, Quota};

    #[test]
    fn a_strategy_is_displayed_with_its_quota() {
        let quota = Quota::per_second(10).burst(20);
        let text = |policy: Policy| policy.strategy().to_string();
        assert_eq!(text(Policy::token_bucket("a", quota)), "token_bucket 10/s burst 20");
        assert_eq!(text(Policy::gcra("a", Quota::per_minute(5))), "gcra 5/min");
        assert_eq!(text(Policy::sliding_window("a", Quota::per_day(100))), "sliding_window 100/d");
        assert_eq!(text(Concurrency::new("a", 4).into()), "in_flight 4");
    }

    #[test]
    fn zero_and_unlimited_are_displayed() {
        type New = fn(&'static str, Quota) -> Policy;
        let policies: [New; 6] = [
            Policy::token_bucket,
            Policy::gcra,
            Policy::leaky_bucket,
            Policy::fixed_window,
            Policy::sliding_window,
            Policy::sliding_log,
        ];
        for policy in policies {
            for quota in [Quota::per_day(0), Quota::UNLIMITED] {
                let strategy = *policy("a", quota).strategy();
                assert_eq!(strategy.quota(), Some(quota));
                assert_eq!(strategy.to_string(), alloc::format!("{} {quota}", strategy.tag()));
            }
        }
        let exports = |limit| Policy::from(Concurrency::new("a", limit)).strategy().to_string();
        assert_eq!(exports(0), "in_flight 0");
        assert_eq!(exports(Quota::UNLIMITED.limit()), "in_flight unlimited");
    }
}
