//! The processor's time-stamp counter, by which the time between two readings of a clock is known.

use std::cell::Cell;
use std::sync::OnceLock;

use quanta::Clock;

thread_local! {
    static LATEST: Cell<Reading> = const { Cell::new(Reading::NONE) };
}

/// The counter, calibrated once per process, which takes about a millisecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter(&'static Calibrated);

#[derive(Debug)]
struct Calibrated {
    counter: Clock,
    /// The ticks in [`VALID`], below 2^32.
    valid: u64,
    /// Nanoseconds in 2^32 ticks, less a little, see [`MARGIN`].
    scale: u64,
}

impl Counter {
    /// `None` if the kernel does not keep time by the counter: then it may run at another rate, or differently on each processor.
    pub(super) fn find() -> Option<Self> {
        static CALIBRATED: OnceLock<Option<Calibrated>> = OnceLock::new();
        let find = || {
            let source = std::fs::read_to_string(CLOCK_SOURCE).ok()?;
            if source.trim() == "tsc" { Calibrated::new(Clock::new()) } else { None }
        };
        CALIBRATED.get_or_init(find).as_ref().map(Self)
    }

    /// The time of a clock in nanoseconds, of which all threads pass the same: as it was read by this thread at most a millisecond ago,
    /// and what the counter has advanced since; otherwise it is `read`.
    #[inline]
    pub(super) fn extend(self, read: impl Fn() -> Option<u64>) -> Option<u64> {
        let ticks = self.0.counter.raw();
        match LATEST.get().extended(self.0, ticks) {
            Some(time) => Some(time),
            None => self.read(read),
        }
    }

    #[cold]
    fn read(self, read: impl Fn() -> Option<u64>) -> Option<u64> {
        let Calibrated { counter, .. } = self.0;
        let before = counter.raw();
        let time = read()?;
        let ticks = counter.raw();
        // Otherwise the thread was interrupted, and the counter may have been read much later than the clock.
        let is_prompt = before < ticks && counter.delta_as_nanos(before, ticks) < PROMPT;
        LATEST.set(if is_prompt { Reading { ticks, time } } else { Reading::NONE });
        Some(time)
    }
}

impl Calibrated {
    /// `None` for a counter of more than 100 GHz or less than 1 MHz, which would not be one.
    fn new(counter: Clock) -> Option<Self> {
        let scale = counter.delta_as_nanos(0, 1 << 32);
        if !(1 << 25..1 << 42).contains(&scale) {
            return None;
        }
        Some(Self { counter, valid: (VALID << 32) / scale, scale: scale - scale / MARGIN })
    }
}

/// A reading of the clock, and of the counter after it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    time: u64,
}

impl Reading {
    /// So many ticks that no counter reaches them within a century.
    const NONE: Self = Self { ticks: 1 << 63, time: 0 };

    /// The time when the counter has reached `ticks`. `None` if that is too long ago, or the counter was set back.
    #[inline]
    fn extended(self, calibrated: &Calibrated, ticks: u64) -> Option<u64> {
        let since = ticks.wrapping_sub(self.ticks);
        (since < calibrated.valid).then(|| self.time + (since.wrapping_mul(calibrated.scale) >> 32))
    }
}

/// The clock that the kernel of this machine keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How long a reading is extended, in nanoseconds: a millisecond.
const VALID: u64 = 1_000_000;
/// The part of the time since a reading that is left out, at most a quarter of a microsecond: more than the calibration errs by, so that
/// the clock is never read as an earlier time after that.
const MARGIN: u64 = 4_096;
/// The longest time between a reading of the clock and that of the counter, in nanoseconds; together with the margin less than a
/// microsecond.
const PROMPT: u64 = 500;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A counter of which a test sets the ticks, one per nanosecond.
    fn manual() -> (Counter, std::sync::Arc<quanta::Mock>) {
        let (counter, ticks) = Clock::mock();
        (Counter(Box::leak(Box::new(Calibrated::new(counter).unwrap()))), ticks)
    }

    #[test]
    fn a_reading_is_extended_for_a_millisecond() {
        let (counter, ticks) = manual();
        LATEST.set(Reading { ticks: 5, time: 70 });
        let never = || -> Option<u64> { unreachable!("the reading is still valid") };
        ticks.increment(5_u64);
        assert_eq!(counter.extend(never), Some(70));
        ticks.increment(MARGIN * 3);
        assert_eq!(counter.extend(never), Some(70 + 4_095 * 3));
        ticks.increment(VALID);
        assert_eq!(counter.extend(|| Some(99)), Some(99));
    }

    #[test]
    fn a_counter_that_was_set_back_is_not_followed() {
        let (counter, ticks) = manual();
        LATEST.set(Reading { ticks: 1_000, time: 70 });
        ticks.increment(999_u64);
        assert_eq!(counter.extend(|| Some(80)), Some(80));
        LATEST.set(Reading { ticks: 1_000, time: 70 });
        assert_eq!(counter.extend(|| None), None, "a clock that a sandbox denies");
    }

    #[test]
    fn a_clock_that_is_read_with_an_interruption_is_read_again() {
        let (counter, ticks) = manual();
        LATEST.set(Reading::NONE);
        let interrupted = |time| {
            ticks.increment(PROMPT);
            Some(time)
        };
        assert_eq!(counter.extend(|| interrupted(1)), Some(1));
        assert_eq!(counter.extend(|| interrupted(2)), Some(2));
    }

    proptest! {
        /// Steps are in nanoseconds of the counter, which the clock counts faster or slower by up to 1/5 000.
        #[test]
        fn time_never_goes_back_and_is_less_than_a_microsecond_late(
            steps in proptest::collection::vec(1_u64..1_500_000, 1..200),
            rate in 999_800_u64..1_000_200,
        ) {
            let (counter, ticks) = manual();
            LATEST.set(Reading::NONE);
            let true_time = || u64::try_from(u128::from(counter.0.counter.raw()) * u128::from(rate) / 1_000_000).unwrap();
            let mut latest = 0;
            for step in steps {
                ticks.increment(step);
                let read = || {
                    let time = true_time();
                    ticks.increment(30_u64);
                    Some(time)
                };
                let now = counter.extend(read).unwrap();
                prop_assert!(now >= latest && now <= true_time() && true_time() - now < 1_000);
                latest = now;
            }
        }
    }

    #[test]
    fn the_counter_of_this_machine_keeps_step_with_its_clock() {
        let Some(counter) = Counter::find() else { return };
        let read = super::super::since_boot;
        let mut latest = 0;
        for _ in 0..100_000 {
            let before = counter.extend(read).unwrap();
            let clock = read().unwrap();
            assert!(latest <= before && before <= clock, "{latest}, {before}, {clock}");
            latest = before;
        }
    }
}
