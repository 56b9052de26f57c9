//! Clocks that step by seconds and hours, and keys that are idle for years.

use std::time::Duration;

use portcullis_core::algorithm::State;
use portcullis_core::{
    Anchor, CalendarWindow, FixedWindow, Gcra, LeakyBucket, Quota, Refill, Retry, SlidingLog, SlidingWindow,
    Strategy, TokenBucket,
};

use portcullis_testing::calendars;

use crate::states::{at, longest_denial};

const START: u64 = 1_767_225_600_000_000;
const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

fn strategies() -> Vec<Strategy> {
    let quotas =
        [(1, SECOND), (10, SECOND), (5, 60 * SECOND), (100, HOUR), (3, 7 * DAY), (10_000_000, SECOND)];
    let calendar_window = |table| Strategy::CalendarWindow(CalendarWindow::new(3, table).unwrap());
    let calendars = calendars().iter().map(calendar_window);
    quotas.into_iter().flat_map(|(limit, period)| strategies_for(limit, period)).chain(calendars).collect()
}

fn strategies_for(limit: u64, period: u64) -> Vec<Strategy> {
    let quota = Quota::new(limit, Duration::from_micros(period), None).unwrap();
    let windows = FixedWindow::new(quota).unwrap();
    let mut strategies: Vec<_> =
        [Anchor::Epoch, Anchor::FirstRequest, Anchor::Instant(at(20 * 60 * SECOND + 1))]
            .map(|anchor| Strategy::FixedWindow(windows.anchored(anchor)))
            .into();
    for burst in [1, limit, 3 * limit] {
        let quota = quota.burst(burst);
        let bucket = TokenBucket::new(quota).unwrap();
        strategies.extend([
            Strategy::Gcra(Gcra::new(quota).unwrap()),
            Strategy::TokenBucket(bucket),
            Strategy::TokenBucket(bucket.refilled(Refill::Interval)),
            Strategy::LeakyBucket(LeakyBucket::new(quota).unwrap()),
        ]);
    }
    for slots in [1, 2, 6, 60] {
        if let Ok(window) = SlidingWindow::with_slots(quota, slots) {
            strategies.push(Strategy::SlidingWindow(window));
        }
    }
    strategies.extend((limit <= 100).then(|| Strategy::SlidingLog(SlidingLog::new(quota).unwrap())));
    strategies
}

/// One key of a store that keeps repairs.
struct Key(Strategy, Option<State>);

impl Key {
    fn admits(&mut self, now: u64, cost: u64) -> bool {
        let Self(strategy, state) = self;
        let evaluation = strategy.evaluate(state.as_ref(), at(now), cost);
        strategy.apply_decision(state, at(now), cost, evaluation, evaluation.admitted);
        evaluation.admitted
    }

    fn remaining(&mut self, now: u64) -> u64 {
        assert!(self.admits(now, 0));
        self.0.snapshot(self.1.as_ref(), at(now), 0, true).remaining
    }
}

#[test]
fn clock_steps_free_no_units_and_deny_for_a_bounded_time() {
    for strategy in strategies() {
        for phase in [0, 1, SECOND / 3, 59 * SECOND, 20 * 60 * SECOND, DAY + 1] {
            for back in [1, SECOND, 20 * SECOND, 60 * SECOND, 90 * SECOND, HOUR - 1, HOUR, HOUR + 1] {
                let start = START + phase;
                let mut key = Key(strategy, None);
                assert!(key.admits(start, strategy.limit()));
                // A step back frees no units at once ...
                assert_eq!(key.remaining(start - back), 0, "{strategy:?} {phase} {back}");
                assert!(!key.admits(start - back, 1));
                // ... and denies for no longer than the bound.
                let open = start - back + longest_denial(&strategy);
                assert_eq!(key.remaining(open), strategy.limit(), "{strategy:?} {phase} {back}");

                // The same holds for a step forth and back again.
                let mut key = Key(strategy, None);
                assert!(key.admits(start, strategy.limit()));
                if key.admits(start + back, strategy.limit()) {
                    assert!(!key.admits(start, 1), "{strategy:?} {phase} {back}");
                }
                assert_eq!(key.remaining(start + longest_denial(&strategy)), strategy.limit());
            }
        }
    }
}

/// The bound also holds if no request comes between the step and the end of the wait, so that no repair is stored: the waits
/// that denials then announce add up to no more.
#[test]
fn an_unobserved_clock_step_keeps_the_bound() {
    for strategy in strategies() {
        let mut key = Key(strategy, None);
        assert!(key.admits(START + 2 * HOUR, strategy.limit()));
        let mut now = START + HOUR;
        let mut waited = 0;
        while !key.admits(now, strategy.limit()) {
            let snapshot = key.0.snapshot(key.1.as_ref(), at(now), strategy.limit(), false);
            let Some(Retry::After(wait)) = snapshot.retry else { panic!("{strategy:?}") };
            let wait = u64::try_from(wait.as_micros()).unwrap();
            assert!(wait > 0, "{strategy:?}");
            (now, waited) = (now + wait, waited + wait);
        }
        assert!(waited <= longest_denial(&strategy), "{strategy:?}: {waited}");
    }
}

/// A single unit is denied for at most two periods, or twice the time to full, after a step of any size. With sliding windows
/// it is one microsecond longer, because the slot that begins to fade still counts in full at its first instant.
#[test]
fn a_step_back_denies_one_unit_for_at_most_two_periods() {
    for strategy in strategies() {
        let (longest, more) = match strategy {
            Strategy::SlidingWindow(window) => {
                (longest_denial(&strategy) - u64::try_from(window.slot().as_micros()).unwrap(), 1)
            }
            _ => (longest_denial(&strategy), 0),
        };
        let mut denied = 0;
        for quarters in 1..=12 {
            for micros in [0, 1] {
                let mut key = Key(strategy, None);
                let then = START + 30 * DAY;
                assert!(key.admits(then, strategy.limit()));
                let back = then - longest / 8 * quarters - micros;
                let admitted = key.admits(back, 1);
                let snapshot = key.0.snapshot(key.1.as_ref(), at(back), 1, admitted);
                let Some(Retry::After(wait)) = snapshot.retry else { panic!("{strategy:?}") };
                denied = denied.max(u64::try_from(wait.as_micros()).unwrap());
            }
        }
        assert!(denied <= longest + more, "{strategy:?}: {denied}");
    }
}

#[test]
fn years_of_idleness_yield_one_burst() {
    for strategy in strategies() {
        for years in [1, 10, 100, 200] {
            let mut key = Key(strategy, None);
            assert!(key.admits(START, strategy.limit()));
            let now = START + years * 365 * DAY;
            assert_eq!(key.remaining(now), strategy.limit());
            assert!(key.admits(now, strategy.limit()));
            assert!(!key.admits(now, 1));
        }
    }
}
