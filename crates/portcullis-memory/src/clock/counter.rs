//! The processor's time-stamp counter, by which the time between two readings of a clock is known.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use quanta::Clock;

thread_local! {
    static LATEST: Cell<Reading> = const { Cell::new(Reading::NONE) };
}

/// The counter of the processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter(&'static Clock);

impl Counter {
    /// How much later one thread may read an instant than another.
    pub(super) const SKEW: Duration = Duration::from_micros(2);

    /// `None` if the kernel does not keep time by the counter: then it may run at another rate, or differently on each processor.
    pub(super) fn find() -> Option<Self> {
        static COUNTER: OnceLock<Option<Clock>> = OnceLock::new();
        let find = || {
            let source = std::fs::read_to_string(CLOCK_SOURCE).ok()?;
            let counter = (source.trim() == "tsc").then(Clock::new)?;
            // Without support by the processor, as in an emulator, it reads a clock of the system, in nanoseconds.
            (counter.delta_as_nanos(0, 1 << 32) != 1 << 32).then_some(counter)
        };
        COUNTER.get_or_init(find).as_ref().map(Self)
    }

    /// The time of a clock in nanoseconds: as this thread read it at most a millisecond ago, and what the counter has advanced since;
    /// otherwise it is `read`. All threads pass one clock.
    #[inline]
    pub(super) fn extend(self, read: impl Fn() -> Option<u64>) -> Option<u64> {
        let ticks = self.0.raw();
        match LATEST.get().extended(ticks) {
            Some(time) => Some(time),
            None => self.read(read),
        }
    }

    #[cold]
    fn read(self, read: impl Fn() -> Option<u64>) -> Option<u64> {
        let before = self.0.raw();
        let clock = read()?;
        let ticks = self.0.raw();
        let latest = LATEST.get();
        // Otherwise the thread was interrupted, and the counter may have been read much later than the clock.
        let is_prompt = before < ticks && self.0.delta_as_nanos(before, ticks) < PROMPT;
        if is_prompt {
            LATEST.set(latest.followed_by(ticks, clock));
        }
        Some(clock.max(latest.last(ticks)))
    }
}

/// A reading of the clock, and of the counter after it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    /// In nanoseconds.
    clock: u64,
    /// The time that was told, which is later than the clock if that has become slower.
    told: u64,
    rate: Rate,
}

/// The rate of the clock by the counter.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The ticks in [`VALID`]; 0 for a rate that is unknown.
    valid: u64,
    /// Nanoseconds in 2^32 ticks, less a [`MARGIN`].
    scale: u64,
}

impl Reading {
    const NONE: Self = Self { ticks: 0, clock: 0, told: 0, rate: Rate::UNKNOWN };

    /// The time when the counter has reached `ticks`. `None` if that is too long ago, or the counter was set back.
    #[inline]
    fn extended(self, ticks: u64) -> Option<u64> {
        let since = ticks.wrapping_sub(self.ticks);
        (since < self.rate.valid).then(|| self.told + self.rate.time(since))
    }

    /// The latest time that this reading was extended to, when the counter has reached `ticks`; zero if the counter was set back.
    fn last(self, ticks: u64) -> u64 {
        if ticks < self.ticks { 0 } else { self.told + self.rate.time(self.rate.valid) }
    }

    /// The next reading, with the rate between the two. Until the rate is known, it is this one if the two are too close to measure it.
    fn followed_by(self, ticks: u64, clock: u64) -> Self {
        let passed = clock.saturating_sub(self.clock);
        let rate = match Rate::between(ticks.saturating_sub(self.ticks), passed) {
            // Longer, and the machine may have been suspended.
            Some(rate) if (VALID..=MEASURABLE).contains(&passed) => rate,
            _ if self.rate.valid == 0 && passed < VALID => return self,
            _ => self.rate,
        };
        Self { ticks, clock, told: clock.max(self.last(ticks)), rate }
    }
}

impl Rate {
    const UNKNOWN: Self = Self { valid: 0, scale: 0 };

    /// The rate at which `ticks` take this many nanoseconds, of a counter between 1 MHz and 100 GHz.
    fn between(ticks: u64, nanos: u64) -> Option<Self> {
        let scale = u64::try_from((u128::from(nanos) << 32).checked_div(ticks.into())?).ok()?;
        let is_counter = (0x200_0000..0x400_0000_0000).contains(&scale);
        is_counter.then(|| Self { valid: (VALID << 32) / scale, scale: scale - scale / MARGIN })
    }

    /// At most the [valid](Rate::valid) ticks, for which nothing overflows.
    #[inline]
    fn time(self, ticks: u64) -> u64 {
        ticks.wrapping_mul(self.scale) >> 32
    }
}

/// The clock that the kernel of this machine keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How long a reading is extended, in nanoseconds: a millisecond.
const VALID: u64 = 1_000_000;
/// The longest time between two readings that the rate is measured by, in nanoseconds.
const MEASURABLE: u64 = 100 * VALID;
/// The part of the time since a reading that is left out, at most a microsecond: more than what the rate errs by.
const MARGIN: u64 = 1_024;
/// The longest time between a reading of the clock and that of the counter, in nanoseconds.
const PROMPT: u64 = 500;

#[cfg(test)]
mod tests;
