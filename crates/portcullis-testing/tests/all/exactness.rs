//! Exact rates, for as long as there is time; and clocks that step.

use std::time::Duration;

use portcullis_core::{Anchor, FixedWindow, Gcra, Quota, Retry, State, Strategy, Timestamp};

const START: u64 = 1_767_225_600_000_000;
const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

fn per(limit: u32, micros: u64) -> Quota {
    Quota::new(limit, Duration::from_micros(micros)).unwrap()
}

fn gcra(quota: Quota) -> Strategy {
    Strategy::Gcra(Gcra::new(quota).unwrap())
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// The k-th unit after the first is admitted at the first whole microsecond not before k thirds of a second, a million
/// times, and each wait that is announced is exactly that.
#[test]
fn three_per_second_are_three_per_second_for_a_million_steps() {
    let strategy = gcra(per(3, SECOND).burst(3));
    let mut state = strategy.decide(None, at(START), 3).after;
    let mut now = at(START);
    for k in 1..=1_000_000_u64 {
        let Some(Retry::After(wait)) = strategy.report(state.as_ref(), now, 1, false).retry else { panic!() };
        now = now.saturating_add(wait);
        assert_eq!(now.as_micros(), START + (k * SECOND).div_ceil(3));
        let transition = strategy.decide(state.as_ref(), now, 1);
        assert!(transition.admitted);
        state = transition.after;
    }
}

/// A client that takes a whole limit per period, at the earliest instant that it can, is neither held up nor let in early by a
/// microsecond in a million periods, or in all that there are until 2255.
#[test]
fn fast_and_slow_rates_are_exact_for_a_million_periods() {
    for (limit, period) in
        [(30_000, SECOND), (10_000_000, SECOND), (3, SECOND), (7, 1_000), (10, 1), (1, 30 * DAY)]
    {
        let strategy = gcra(per(limit, period).burst(limit));
        let until = (1_u64 << 53) - 2 * period - START;
        let periods = 1_000_000.min(until / period);
        let mut state = strategy.decide(None, at(START), limit).after;
        for k in 1..=periods {
            let now = START + k * period;
            assert!(
                !strategy.decide(state.as_ref(), at(now - 1), limit).admitted,
                "{limit} in {period}: {k}"
            );
            let transition = strategy.decide(state.as_ref(), at(now), limit);
            assert!(transition.admitted, "{limit} in {period} us: {k}");
            state = transition.after;
        }
        let report = strategy.report(state.as_ref(), at(START + periods * period), 0, true);
        assert_eq!((report.remaining, report.reset_after), (0, Duration::from_micros(period)));
    }
}

/// Nine requests in each period, of costs that share no factor with the limit, each at the instant that its wait names: what
/// is admitted is exactly the yield of the rate.
#[test]
fn waits_within_a_period_lose_nothing_either() {
    for (limit, period, periods) in [(30_000_u32, SECOND, 50_000_u64), (10_000_000, SECOND, 50_000)] {
        let strategy = gcra(per(limit, period).burst(limit));
        let mut state = strategy.decide(None, at(START), limit).after;
        let (mut now, mut admitted, cost) = (at(START), 0_u64, limit / 9);
        while now.as_micros() < START + periods * period {
            let Some(Retry::After(wait)) = strategy.report(state.as_ref(), now, cost, false).retry else {
                panic!()
            };
            now = now.saturating_add(wait);
            let transition = strategy.decide(state.as_ref(), now, cost);
            assert!(transition.admitted && !wait.is_zero());
            (state, admitted) = (transition.after, admitted + u64::from(cost));
            let due = (u128::from(admitted) * u128::from(period)).div_ceil(limit.into());
            assert_eq!(u128::from(now.as_micros() - START), due);
        }
    }
}

#[test]
fn windows_are_exact_for_a_million_periods() {
    for (limit, period) in [(30_000, SECOND), (10_000_000, SECOND), (7, 1_000), (1, 1), (1, 30 * DAY)] {
        let anchor = Anchor::Instant(at(12_345));
        let strategy = Strategy::FixedWindow(FixedWindow::new(per(limit, period)).unwrap().anchored(anchor));
        let first = START - (START - 12_345) % period;
        let periods = 1_000_000.min(((1_u64 << 53) - 2 * period - START) / period);
        let mut state = None;
        for k in 0..periods {
            let now = first + k * period;
            let transition = strategy.decide(state.as_ref(), at(now), limit);
            assert!(transition.admitted, "{limit} in {period} us: {k}");
            state = transition.after;
            assert!(!strategy.decide(state.as_ref(), at(now + period - 1), 1).admitted);
        }
    }
}

fn strategies() -> Vec<Strategy> {
    let mut strategies = Vec::new();
    for (limit, period) in
        [(1, SECOND), (10, SECOND), (5, 60 * SECOND), (100, HOUR), (3, 7 * DAY), (10_000_000, SECOND)]
    {
        for anchor in [Anchor::Epoch, Anchor::FirstRequest, Anchor::Instant(at(20 * 60 * SECOND + 1))] {
            strategies
                .push(Strategy::FixedWindow(FixedWindow::new(per(limit, period)).unwrap().anchored(anchor)));
        }
        for burst in [1, limit, 3 * limit] {
            strategies.push(gcra(per(limit, period).burst(burst)));
        }
    }
    strategies
}

/// Two periods, or twice the time to full.
fn longest_shut(strategy: &Strategy) -> u64 {
    match strategy {
        Strategy::Gcra(gcra) => 2 * (gcra.meter().capacity().micros + 1),
        Strategy::FixedWindow(windows) => 2 * u64::try_from(windows.period().as_micros()).unwrap(),
    }
}

/// A store that keeps repairs, on one key.
struct Key(Strategy, Option<State>);

impl Key {
    fn admits(&mut self, now: u64, cost: u32) -> bool {
        let Self(strategy, state) = self;
        let transition = strategy.decide(state.as_ref(), at(now), cost);
        if transition.repaired || (transition.admitted && cost > 0) {
            *state = if transition.admitted { transition.after } else { transition.before };
        }
        transition.admitted
    }

    fn remaining(&mut self, now: u64) -> u32 {
        assert!(self.admits(now, 0));
        self.0.report(self.1.as_ref(), at(now), 0, true).remaining
    }
}

#[test]
fn clock_steps_of_an_hour_lock_nobody_out_and_let_nobody_in() {
    for strategy in strategies() {
        for phase in [0, 1, SECOND / 3, 59 * SECOND, 20 * 60 * SECOND, DAY + 1] {
            for back in [1, SECOND, 20 * SECOND, 60 * SECOND, 90 * SECOND, HOUR - 1, HOUR, HOUR + 1] {
                let start = START + phase;
                let mut key = Key(strategy, None);
                assert!(key.admits(start, strategy.limit()));
                // A step back lets nobody in at once ...
                assert_eq!(key.remaining(start - back), 0, "{strategy:?} {phase} {back}");
                assert!(!key.admits(start - back, 1));
                // ... and shuts nobody out for longer than it may.
                let open = start - back + longest_shut(&strategy);
                assert_eq!(key.remaining(open), strategy.limit(), "{strategy:?} {phase} {back}");

                // A step forth and back again neither.
                let mut key = Key(strategy, None);
                assert!(key.admits(start, strategy.limit()));
                if key.admits(start + back, strategy.limit()) {
                    assert!(!key.admits(start, 1), "{strategy:?} {phase} {back}");
                }
                assert_eq!(key.remaining(start + longest_shut(&strategy)), strategy.limit());
            }
        }
    }
}

/// The bound holds even if nobody comes between the step and the end of the wait, so that nothing was repaired: where it does
/// not, the first to come is told when.
#[test]
fn a_step_that_nobody_saw_is_no_worse() {
    for strategy in strategies() {
        let mut key = Key(strategy, None);
        assert!(key.admits(START + 2 * HOUR, strategy.limit()));
        let mut now = START + HOUR;
        let mut waited = 0;
        while !key.admits(now, strategy.limit()) {
            let report = key.0.report(key.1.as_ref(), at(now), strategy.limit(), false);
            let Some(Retry::After(wait)) = report.retry else { panic!("{strategy:?}") };
            let wait = u64::try_from(wait.as_micros()).unwrap();
            assert!(wait > 0, "{strategy:?}");
            (now, waited) = (now + wait, waited + wait);
        }
        assert!(waited <= longest_shut(&strategy), "{strategy:?}: {waited}");
    }
}

#[test]
fn years_of_idleness_earn_one_burst() {
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
