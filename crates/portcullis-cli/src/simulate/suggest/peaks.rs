//! The most that callers have asked for at once.

use std::time::Duration;

use portcullis_core::{Quota, Strategy, Timestamp};
use serde::Serialize;

use crate::simulate::store::Charge;

/// The most units that each caller has asked for within one period of the quota, over the callers: half of them have asked for at most
/// `p50`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peaks {
    /// The length of the period, such as `1m`, or `window` of a calendar.
    pub per: String,
    /// Of half of the callers.
    pub p50: u64,
    /// Of 95 % of the callers.
    pub p95: u64,
    /// Of 99 % of the callers.
    pub p99: u64,
    /// Of all callers.
    pub max: u64,
}

impl Peaks {
    /// Of charges that are sorted by key and time, and are not empty.
    pub(super) fn of(strategy: &Strategy, charges: &[Charge]) -> Self {
        let of_keys = charges.chunk_by(|one, other| one.key == other.key);
        let mut peaks: Vec<u64> = of_keys.map(|of_key| peak(strategy, of_key)).collect();
        peaks.sort_unstable();
        let rank = |percent: usize| peaks[(peaks.len() * percent).div_ceil(100).saturating_sub(1)];
        let period = strategy.quota().map(Quota::period);
        let per = period
            .map_or_else(|| "window".to_owned(), |period| humantime::format_duration(period).to_string());
        Self { per, p50: rank(50), p95: rank(95), p99: rank(99), max: rank(100) }
    }
}

/// The most units within one period, of charges of one key that are sorted by time.
pub(super) fn peak(strategy: &Strategy, charges: &[Charge]) -> u64 {
    let is_together = |first: &Charge, last: &Charge| match strategy {
        Strategy::CalendarWindow(window) => {
            let number = |charge: &Charge| window.table().number_at(Timestamp::from_micros(charge.micros));
            number(first) == number(last)
        }
        other => {
            let period = other.quota().map_or(Duration::ZERO, Quota::period);
            u128::from(last.micros - first.micros) < period.as_micros()
        }
    };
    let (mut first, mut units, mut peak) = (0, 0_u128, 0_u128);
    for charge in charges {
        units += u128::from(charge.cost);
        while charges[first].micros < charge.micros && !is_together(&charges[first], charge) {
            units -= u128::from(charges[first].cost);
            first += 1;
        }
        peak = peak.max(units);
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use portcullis_core::Policy;

    use super::*;

    #[test]
    fn peaks_are_the_most_within_a_period() {
        let charge = |key, second: u64, cost| Charge { key, micros: second * 1_000_000, cost };
        let policy = Policy::fixed_window("pages", Quota::per_minute(10));
        let one = [charge(1, 0, 1), charge(1, 59, 2), charge(1, 60, 4), charge(1, 118, 8), charge(1, 600, 3)];
        // 59 to 118 s are within a minute, 59 to 119 s would not be.
        assert_eq!(peak(policy.strategy(), &one), 14);
        let mut all: Vec<_> = (0..99).map(|key| charge(key, key, 1 + key / 50)).collect();
        all.push(charge(99, 0, 500));
        let peaks = Peaks::of(policy.strategy(), &all);
        assert_eq!((&*peaks.per, peaks.p50, peaks.p95, peaks.p99, peaks.max), ("1m", 1, 2, 2, 500));
    }
}
