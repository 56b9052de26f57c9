use std::sync::Arc;

use proptest::prelude::*;
use quanta::Mock;

use super::*;

/// A counter of which a test sets the ticks, one per nanosecond. This thread has not read the clock yet.
fn manual() -> (Counter, Arc<Mock>) {
    let (counter, ticks) = Clock::mock();
    LATEST.set(Reading::NONE);
    ticks.increment(HOUR);
    (Counter(Box::leak(Box::new(counter))), ticks)
}

/// Returns a function that reads `clock`, and meanwhile advances the counter by `passed` ticks.
fn reading(ticks: &Mock, clock: u64, passed: u64) -> impl Fn() -> Option<u64> {
    move || {
        ticks.increment(passed);
        Some(clock)
    }
}

fn never() -> Option<u64> {
    unreachable!("the reading is still valid")
}

/// Reads the clock at 1 ms and 2 ms, by which the rate is known.
fn measured() -> (Counter, Arc<Mock>) {
    let (counter, ticks) = manual();
    assert_eq!(counter.extend(reading(&ticks, VALID, 30)), Some(VALID));
    ticks.increment(VALID - 30);
    assert_eq!(counter.extend(reading(&ticks, 2 * VALID, 30)), Some(2 * VALID));
    (counter, ticks)
}

#[test]
fn a_reading_is_extended_for_a_millisecond() {
    let (counter, ticks) = measured();
    assert_eq!(counter.extend(never), Some(2 * VALID));
    ticks.increment(MARGIN * 3);
    let late = 2 * VALID + MARGIN * 3 - counter.extend(never).unwrap();
    assert!((3..=4).contains(&late), "{late}");
    ticks.increment(VALID);
    let next = 3 * VALID + MARGIN * 3;
    assert_eq!(counter.extend(reading(&ticks, next, 30)), Some(next));
    ticks.increment(1_u64);
    assert_eq!(counter.extend(never), Some(next));
}

#[test]
fn the_rate_is_unknown_until_a_millisecond_has_passed() {
    let (counter, ticks) = manual();
    for clock in (VALID..2 * VALID).step_by(100_000) {
        assert_eq!(counter.extend(reading(&ticks, clock, 30)), Some(clock));
        ticks.increment(100_000_u64 - 30);
    }
    assert_eq!(LATEST.get().rate.valid, 0);
    assert_eq!(counter.extend(reading(&ticks, 2 * VALID, 30)), Some(2 * VALID));
    assert_eq!(counter.extend(never), Some(2 * VALID));
}

#[test]
fn a_counter_that_was_set_back_is_not_followed() {
    let (counter, ticks) = measured();
    ticks.decrement(1_000_u64);
    assert_eq!(counter.extend(reading(&ticks, 9 * VALID, 30)), Some(9 * VALID));
    ticks.decrement(1_000_u64);
    assert_eq!(counter.extend(|| None), None, "a clock that a sandbox denies");
}

#[test]
fn a_clock_that_is_read_with_an_interruption_is_read_again() {
    let (counter, ticks) = measured();
    ticks.increment(VALID);
    for clock in [5 * VALID, 5 * VALID + 1] {
        assert_eq!(counter.extend(reading(&ticks, clock, PROMPT)), Some(clock));
    }
}

#[test]
fn the_rate_is_not_measured_over_a_time_asleep() {
    let (counter, ticks) = measured();
    let before = LATEST.get().rate.scale;
    ticks.increment(VALID);
    let awake = 3 * VALID + 3 * MEASURABLE;
    assert_eq!(counter.extend(reading(&ticks, awake, 30)), Some(awake));
    assert_eq!(LATEST.get().rate.scale, before);
}

proptest! {
    /// A daemon changes the rate of the clock by up to a tenth, as far as it does that at all.
    #[test]
    fn time_never_goes_back_whatever_the_rate_of_the_clock(
        steps in proptest::collection::vec((1_u64..1_500_000, prop_oneof![9 => Just(0), 1 => 900_u64..1_100]), 1..300),
    ) {
        let (counter, ticks) = manual();
        let (mut clock, mut rate, mut latest, mut most) = (VALID, 1_000, 0, 2_000);
        for (step, change) in steps {
            if change > 0 {
                // The rate of two readings around it is between the old one and the new one.
                (rate, most) = (change, most + 3 * VALID / 10);
            }
            ticks.increment(step);
            clock += step * rate / 1_000;
            let now = counter.extend(|| { ticks.increment(30_u64); Some(clock) }).unwrap();
            prop_assert!(now >= latest && now.abs_diff(clock) < most, "{now} {latest} {clock}");
            latest = now;
        }
    }

    #[test]
    fn time_is_at_most_two_microseconds_late(
        steps in proptest::collection::vec(1_u64..1_500_000, 1..200), rate in 900_u64..1_100,
    ) {
        let (counter, ticks) = manual();
        let mut clock = VALID;
        for step in steps {
            ticks.increment(step);
            clock += step * rate / 1_000;
            let now = counter.extend(|| { ticks.increment(30_u64); Some(clock) }).unwrap();
            prop_assert!(now <= clock + 100 && clock.saturating_sub(now) < 2_000, "{now} {clock}");
        }
    }
}

#[test]
fn the_counter_of_this_machine_keeps_step_with_its_clock() {
    let Some(counter) = Counter::find() else {
        assert!(!has_counter(), "the kernel keeps time by the counter, and the processor supports that");
        return;
    };
    let read = crate::clock::since_boot;
    let (start, mut latest, mut extended) = (read().unwrap(), 0, 0);
    // A thread that is interrupted all the time may read the clock each time.
    while latest < start + 20 * VALID || (extended == 0 && latest < start + MINUTE) {
        let before = LATEST.get().ticks;
        let now = counter.extend(read).unwrap();
        extended += u32::from(LATEST.get().ticks == before && LATEST.get().rate.valid > 0);
        assert!(latest <= now, "{latest}, {now}");
        latest = now;
    }
    assert!(extended > 0);
}

fn has_counter() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let source = std::fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
    source.trim() == "tsc"
        && ["constant_tsc", "nonstop_tsc", "rdtscp"].iter().all(|flag| flags.contains(flag))
}

const HOUR: u64 = 3_600_000_000_000;
const MINUTE: u64 = HOUR / 60;
