//! Rates are exact over the whole range of timestamps.

use std::time::Duration;

use portcullis_core::{
    Anchor, FixedWindow, Gcra, LeakyBucket, Quota, Refill, Retry, SlidingLog, Strategy, TokenBucket,
};

use crate::states::at;

const START: u64 = 1_767_225_600_000_000;
const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

fn per(limit: u64, micros: u64) -> Quota {
    Quota::new(limit, Duration::from_micros(micros), None).unwrap()
}

fn gcra(quota: Quota) -> Strategy {
    Strategy::Gcra(Gcra::new(quota).unwrap())
}

fn token_bucket(quota: Quota, refill: Refill) -> Strategy {
    Strategy::TokenBucket(TokenBucket::new(quota).unwrap().refilled(refill))
}

/// For a million units, the k-th unit after the first is admitted at the first whole microsecond not before k thirds of a
/// second, and each announced wait ends exactly there.
#[test]
fn three_per_second_is_exact_for_a_million_steps() {
    let strategy = gcra(per(3, SECOND).burst(3));
    let mut state = strategy.decide(None, at(START), 3).after;
    let mut now = at(START);
    for k in 1..=1_000_000_u64 {
        let Some(Retry::After(wait)) = strategy.snapshot(state.as_ref(), now, 1, false).retry else {
            panic!()
        };
        now = now.saturating_add(wait);
        assert_eq!(now.as_micros(), START + (k * SECOND).div_ceil(3));
        let transition = strategy.decide(state.as_ref(), now, 1);
        assert!(transition.admitted);
        state = transition.after;
    }
}

/// A client that takes the whole limit per period, each at the earliest possible instant, is neither late nor early by a
/// microsecond after a million periods, or after all periods until 2255.
#[test]
fn fast_and_slow_rates_are_exact_for_a_million_periods() {
    for (limit, period) in
        [(30_000, SECOND), (10_000_000, SECOND), (3, SECOND), (7, 1_000), (10, 1), (1, 30 * DAY)]
    {
        assert_a_limit_per_period(&gcra(per(limit, period).burst(limit)), START, period, 1_000_000);
    }
}

#[test]
fn interval_refill_leaky_bucket_and_log_are_exact() {
    for (limit, period) in [(30_000, SECOND), (3, SECOND), (7, 1_000), (10, 1), (1, 30 * DAY)] {
        let quota = per(limit, period);
        let first = START.next_multiple_of(period);
        assert_a_limit_per_period(&token_bucket(quota, Refill::Interval), first, period, 100_000);
        let queue = Strategy::LeakyBucket(LeakyBucket::new(quota).unwrap());
        assert_a_limit_per_period(&queue, START, period, 100_000);
        let log = Strategy::SlidingLog(SlidingLog::new(per(limit.min(10), period)).unwrap());
        assert_a_limit_per_period(&log, START, period, 100_000);
    }
}

fn assert_a_limit_per_period(strategy: &Strategy, start: u64, period: u64, most: u64) {
    let limit = strategy.limit();
    let until = (1_u64 << 53) - 2 * period - start;
    let periods = most.min(until / period);
    let mut state = None;
    strategy.charge(&mut state, at(start), limit);
    for k in 1..=periods {
        let now = start + k * period;
        assert!(
            !strategy.evaluate(state.as_ref(), at(now - 1), limit).admitted,
            "{limit} in {period} us: {k}"
        );
        assert!(strategy.evaluate(state.as_ref(), at(now), limit).admitted, "{limit} in {period} us: {k}");
        strategy.charge(&mut state, at(now), limit);
    }
    let snapshot = strategy.snapshot(state.as_ref(), at(start + periods * period), 0, true);
    assert_eq!((snapshot.remaining, snapshot.reset_after), (0, Duration::from_micros(period)));
}

/// Nine requests in each period, with a cost that does not divide the limit, each at the instant that its wait names. The
/// admitted units are exactly the yield of the rate.
#[test]
fn waits_within_a_period_are_exact() {
    for (limit, period, periods) in [(30_000_u64, SECOND, 50_000_u64), (10_000_000, SECOND, 50_000)] {
        let strategy = gcra(per(limit, period).burst(limit));
        let mut state = strategy.decide(None, at(START), limit).after;
        let (mut now, mut admitted, cost) = (at(START), 0_u64, limit / 9);
        while now.as_micros() < START + periods * period {
            let Some(Retry::After(wait)) = strategy.snapshot(state.as_ref(), now, cost, false).retry else {
                panic!()
            };
            now = now.saturating_add(wait);
            let transition = strategy.decide(state.as_ref(), now, cost);
            assert!(transition.admitted && !wait.is_zero());
            (state, admitted) = (transition.after, admitted + cost);
            let due = (u128::from(admitted) * u128::from(period)).div_ceil(limit.into());
            assert_eq!(u128::from(now.as_micros() - START), due);
        }
    }
}

#[test]
fn fixed_windows_are_exact_for_a_million_periods() {
    for (limit, period) in [(30_000, SECOND), (10_000_000, SECOND), (7, 1_000), (1, 1), (1, 30 * DAY)] {
        let anchor = Anchor::Instant(at(12_345));
        let strategy = Strategy::FixedWindow(FixedWindow::new(per(limit, period)).unwrap().anchored(anchor));
        let first = START - (START - 12_345) % period;
        let periods = 1_000_000.min(((1_u64 << 53) - 2 * period - START) / period);
        let mut state = None;
        for k in 0..periods {
            let now = first + k * period;
            assert!(
                strategy.evaluate(state.as_ref(), at(now), limit).admitted,
                "{limit} in {period} us: {k}"
            );
            strategy.charge(&mut state, at(now), limit);
            assert!(!strategy.evaluate(state.as_ref(), at(now + period - 1), 1).admitted);
        }
    }
}
