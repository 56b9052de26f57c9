//! Quotas as text, and the quota of a strategy.

use alloc::string::{String, ToString};
use core::time::Duration;

use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::Text;
use crate::algorithm::Meter;
use crate::{Quota, Strategy};

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text { expecting: "a quota, such as \"10/s burst 20\"", parse };
        text.deserialize(deserializer)
    }
}

impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn parse(text: &str) -> Result<Quota, String> {
    text.parse::<Quota>().map_err(|error| error.to_string())
}

/// The quota with which the strategy is constructed again, to the bit. The burst is left out where it is the strategy's default.
///
/// GCRA and the leaky bucket keep their rate in lowest terms, so their quota is per shortest unit of time in which a whole number
/// of units is replenished: 5 in 15 minutes are `20/h`. There is no quota for some shares of a policy: neither for a token bucket that
/// gains a fraction of a unit per period, nor for an interval that needs a period longer than [`Quota::MAX_PERIOD`].
pub(super) fn quota_of(strategy: &Strategy) -> Option<Quota> {
    match strategy {
        Strategy::TokenBucket(bucket) => {
            let quota = per(bucket.meter(), bucket.period_micros())?;
            with_burst(quota, bucket.meter().burst(), quota.limit())
        }
        Strategy::Gcra(gcra) => with_burst(quotas(gcra.meter()).next()?, gcra.meter().burst(), 1),
        Strategy::LeakyBucket(bucket) => {
            let burst = bucket.meter().burst();
            let without_burst = quotas(bucket.meter()).find(|quota| quota.limit() == burst);
            without_burst.or_else(|| quotas(bucket.meter()).next()?.try_burst(burst).ok())
        }
        Strategy::FixedWindow(window) => Quota::new(window.limit(), window.period()).ok(),
        // Its windows differ in length, and permits have no period.
        Strategy::CalendarWindow(_) | Strategy::InFlight(_) => None,
        Strategy::SlidingWindow(window) => Quota::new(window.limit(), window.period()).ok(),
        Strategy::SlidingLog(log) => Quota::new(log.limit(), log.period()).ok(),
    }
}

fn with_burst(quota: Quota, burst: u64, default: u64) -> Option<Quota> {
    if burst == default { Some(quota) } else { quota.try_burst(burst).ok() }
}

/// The quotas at the rate of a meter: those per unit of time, the shortest unit first, then the one in lowest terms.
fn quotas(meter: &Meter) -> impl Iterator<Item = Quota> {
    let lowest = Quota::new(meter.denominator(), Duration::from_micros(meter.interval().get())).ok();
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
    Quota::new(limit, Duration::from_micros(period_micros)).ok()
}

/// A second, a minute, an hour, a day and a week, in microseconds.
const UNITS: [u64; 5] = [1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 604_800_000_000];
