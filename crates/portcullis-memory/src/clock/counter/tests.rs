use std::sync::Arc;

use proptest::prelude::*;
use quanta::Mock;

use super::*;

/// A counter of which a test sets the ticks, one per nanosecond.
fn unmeasured() -> (Counter, Arc<Mock>) {
    let (counter, ticks) = Clock::mock();
    let shared = Shared { counter, first: Reading { ticks: 0, time: 0 }, rate: OnceLock::new() };
    LATEST.set(Reading::NONE);
    (Counter(Box::leak(Box::new(shared))), ticks)
}

/// A reading of a clock for which the counter advances.
fn reading(time: u64, ticks: &Mock, passed: u64) -> impl Fn() -> Option<u64> {
    move || {
        ticks.increment(passed);
        Some(time)
    }
}

fn never() -> Option<u64> {
    unreachable!("the reading is still valid")
}

/// Makes the rate known by readings at these times.
fn measured(counter: Counter, ticks: &Mock, at: u64) -> Rate {
    assert_eq!(counter.extend(reading(at, ticks, 30)), Some(at));
    *counter.0.rate.get().expect("the time to measure has passed")
}

#[test]
fn a_reading_is_extended_for_a_millisecond() {
    let (counter, ticks) = unmeasured();
    ticks.increment(MEASURED - 30);
    measured(counter, &ticks, MEASURED);
    assert_eq!(counter.extend(never), Some(MEASURED));
    ticks.increment(MARGIN * 3);
    let late = MEASURED + MARGIN * 3 - counter.extend(never).unwrap();
    assert!((3..=4).contains(&late), "{late}");
    ticks.increment(VALID);
    assert_eq!(counter.extend(reading(99, &ticks, 30)), Some(99));
    ticks.increment(1_u64);
    assert_eq!(counter.extend(never), Some(99));
}

#[test]
fn a_counter_that_was_set_back_is_not_followed() {
    let (counter, ticks) = unmeasured();
    ticks.increment(MEASURED - 30);
    measured(counter, &ticks, MEASURED);
    LATEST.set(Reading { ticks: MEASURED + 1, time: 70 });
    assert_eq!(counter.extend(|| Some(80)), Some(80));
    LATEST.set(Reading { ticks: MEASURED + 1, time: 70 });
    assert_eq!(counter.extend(|| None), None, "a clock that a sandbox denies");
}

#[test]
fn a_clock_that_is_read_with_an_interruption_is_read_again() {
    let (counter, ticks) = unmeasured();
    ticks.increment(MEASURED);
    assert_eq!(counter.extend(reading(MEASURED, &ticks, PROMPT)), Some(MEASURED));
    assert!(counter.0.rate.get().is_none());
    assert_eq!(counter.extend(reading(MEASURED + 1, &ticks, PROMPT)), Some(MEASURED + 1));
}

#[test]
fn a_counter_that_stood_still_while_it_was_measured_is_not_used() {
    for asleep in [MEASURED / 2, 60_000 * MEASURED] {
        let (counter, ticks) = unmeasured();
        ticks.increment(MEASURED);
        assert_eq!(measured(counter, &ticks, MEASURED + asleep).valid, 0);
        assert_eq!(counter.extend(|| Some(7)), Some(7));
    }
}

proptest! {
    /// The clock counts up to 1/1 100 faster or slower than the counter.
    #[test]
    fn time_does_not_go_back_and_is_at_most_two_microseconds_late(
        steps in proptest::collection::vec(1_u64..1_500_000, 1..200),
        rate in 999_100_u64..1_000_900,
    ) {
        let (counter, ticks) = unmeasured();
        let time = || u64::try_from(u128::from(counter.0.counter.raw()) * u128::from(rate) / 1_000_000).unwrap();
        ticks.increment(MEASURED);
        let mut latest = 0;
        for step in steps {
            ticks.increment(step);
            let read = || {
                let time = time();
                ticks.increment(30_u64);
                Some(time)
            };
            let now = counter.extend(read).unwrap();
            prop_assert!(now >= latest && now <= time() && time() - now < 2_000);
            latest = now;
        }
    }
}

#[test]
fn the_counter_of_this_machine_keeps_step_with_its_clock() {
    let read = crate::clock::since_boot;
    if std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() != "tsc") {
        assert!(Counter::find(read).is_none());
        return;
    }
    let Some(counter) = Counter::find(read) else { panic!("the kernel keeps time by the counter") };
    let (start, mut latest) = (read().unwrap(), 0);
    while latest < start + 2 * MEASURED {
        let extended = counter.extend(read).unwrap();
        let clock = read().unwrap();
        assert!(latest <= extended && extended <= clock, "{latest}, {extended}, {clock}");
        latest = extended;
    }
    assert!(counter.0.rate.get().is_some());
}
