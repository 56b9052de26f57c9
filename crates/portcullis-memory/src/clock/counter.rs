//! The processor's time-stamp counter, by which the time between two readings of a clock is known.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use quanta::Clock;

thread_local! {
    static LATEST: Cell<Reading> = const { Cell::new(Reading::NONE) };
}

/// The counter of the processor, and its rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter(&'static Shared);

#[derive(Debug)]
struct Shared {
    counter: Clock,
    first: Reading,
    /// Unknown in the first [`MEASURED`] nanoseconds.
    rate: OnceLock<Rate>,
}

impl Counter {
    /// How much later one thread may read an instant than another.
    pub(super) const SKEW: Duration = Duration::from_micros(2);

    /// `None` if the kernel does not keep time by the counter: then it may run at another rate, or differently on each processor.
    /// `read` reads the clock, in nanoseconds.
    pub(super) fn find(read: impl Fn() -> Option<u64>) -> Option<Self> {
        static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
        let find = || {
            let source = std::fs::read_to_string(CLOCK_SOURCE).ok()?;
            if source.trim() == "tsc" { Shared::new(Clock::new(), read) } else { None }
        };
        SHARED.get_or_init(find).as_ref().map(Self)
    }

    /// The time of the clock in nanoseconds: as it was read by this thread at most a millisecond ago, and what the counter has advanced
    /// since; otherwise it is `read`.
    #[inline]
    pub(super) fn extend(self, read: impl Fn() -> Option<u64>) -> Option<u64> {
        // First, because nothing is kept in registers over this call.
        let ticks = self.0.counter.raw();
        match self.0.rate.get().and_then(|rate| LATEST.get().extended(rate, ticks)) {
            Some(time) => Some(time),
            None => self.read(read),
        }
    }

    #[cold]
    fn read(self, read: impl Fn() -> Option<u64>) -> Option<u64> {
        let Shared { counter, first, rate } = self.0;
        let (reading, is_prompt) = Reading::take(counter, read)?;
        LATEST.set(if is_prompt { reading } else { Reading::NONE });
        if is_prompt && reading.time.saturating_sub(first.time) >= MEASURED {
            rate.get_or_init(|| Rate::between(counter, *first, reading));
        }
        Some(reading.time)
    }
}

impl Shared {
    fn new(counter: Clock, read: impl Fn() -> Option<u64>) -> Option<Self> {
        // The first reading of all takes long.
        let prompt = || Reading::take(&counter, &read).filter(|(_, is_prompt)| *is_prompt);
        let (first, _) = (0..ATTEMPTS).find_map(|_| prompt())?;
        Some(Self { counter, first, rate: OnceLock::new() })
    }
}

/// The rate of the counter.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The ticks in [`VALID`], below 2^32; 0 for a counter that is not used.
    valid: u64,
    /// Nanoseconds in 2^32 ticks, less a [`MARGIN`].
    scale: u64,
}

impl Rate {
    /// The rate between two readings, if it is about the one that the counter was calibrated to: otherwise the machine was suspended
    /// between them, or the calibration was disturbed.
    fn between(counter: &Clock, first: Reading, second: Reading) -> Self {
        let time = second.time.saturating_sub(first.time);
        let calibrated = counter.delta_as_nanos(first.ticks, second.ticks);
        let scale = (u128::from(time) << 32).checked_div(second.ticks.saturating_sub(first.ticks).into());
        match scale.and_then(|scale| u64::try_from(scale).ok()) {
            // Of a counter between 1 MHz and 100 GHz, for which nothing overflows.
            Some(scale @ 0x200_0000..0x400_0000_0000) if time.abs_diff(calibrated) <= time / PLAUSIBLE => {
                Self { valid: (VALID << 32) / scale, scale: scale - scale / MARGIN }
            }
            _ => Self { valid: 0, scale: 0 },
        }
    }
}

/// A reading of the clock, and of the counter after it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    /// In nanoseconds.
    time: u64,
}

impl Reading {
    /// So many ticks that no counter reaches them within a century.
    const NONE: Self = Self { ticks: 1 << 63, time: 0 };

    /// Reads the clock, and returns whether the counter was read promptly after it, and not after an interruption of the thread.
    fn take(counter: &Clock, read: impl Fn() -> Option<u64>) -> Option<(Self, bool)> {
        let before = counter.raw();
        let time = read()?;
        let ticks = counter.raw();
        let is_prompt = before < ticks && counter.delta_as_nanos(before, ticks) < PROMPT;
        Some((Self { ticks, time }, is_prompt))
    }

    /// The time when the counter has reached `ticks`. `None` if that is too long ago, or the counter was set back.
    #[inline]
    fn extended(self, rate: &Rate, ticks: u64) -> Option<u64> {
        let since = ticks.wrapping_sub(self.ticks);
        (since < rate.valid).then(|| self.time + (since.wrapping_mul(rate.scale) >> 32))
    }
}

/// The clock that the kernel of this machine keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How long a reading is extended, in nanoseconds: a millisecond.
const VALID: u64 = 1_000_000;
/// The time in which the rate is measured, in nanoseconds. It then errs by less than a tenth of the margin.
const MEASURED: u64 = 20_000_000;
/// The part by which the rate and the calibration of the counter may differ.
const PLAUSIBLE: u64 = 64;
/// The part of the time since a reading that is left out, at most a microsecond: more than what the rate errs by and what a daemon slows
/// the clock by to set it, usually at most 1/2 000, so that the clock is not read as an earlier time after that.
const MARGIN: u64 = 1_024;
/// The longest time between a reading of the clock and that of the counter, in nanoseconds; together with the margin less than two
/// microseconds.
const PROMPT: u64 = 500;
const ATTEMPTS: u32 = 100;

#[cfg(test)]
mod tests;
