//! Real time.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counter;

use std::time::{Duration, Instant, SystemTime};

use portcullis_core::{Clock, Timestamp};

/// A clock that advances at one rate, whether the machine is awake or suspended; the wall clock sets its start.
///
/// | system | source | time asleep |
/// |---|---|---|
/// | Linux, Android, Fuchsia, OpenBSD | `CLOCK_BOOTTIME` | counts |
/// | macOS, iOS and other Apple systems | `CLOCK_MONOTONIC` | counts |
/// | Windows | [`Instant`] (the performance counter) | counts |
/// | others, or where a sandbox denies the clock | [`Instant`] | may not count |
///
/// Where time asleep counts, epoch-anchored windows end in step with the wall clock, however long the machine was suspended.
/// Where it does not, they end later by the time slept.
///
/// On Linux on x86-64, if the kernel itself keeps time by the processor's time-stamp counter, a thread reads `CLOCK_BOOTTIME` at most
/// once per millisecond, and the counter between, which takes half the time. So two threads may be two microseconds apart, and a counter
/// that stops or jumps is followed for at most a millisecond.
///
/// The wall clock is read once, when this clock is created, and only aligns the edges of windows. A later step of the wall clock
/// has no effect on this clock: it frees no units, lengthens no wait, and moves no edge. Epoch-anchored windows then differ from
/// the wall clock by the step until the clock is created again. Create the clock (or start the process) after the wall clock
/// has been synchronised. A virtual machine that its host pauses may not count the pause; windows then end later by its length.
///
/// ```
/// use portcullis::store::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Anchored<System>);

impl SystemClock {
    /// Creates a clock anchored to the wall clock now. The first one of a process measures the counter, if it is used, which takes about
    /// a millisecond, and a fifth of a second at most.
    pub fn new() -> Self {
        let counter = Counter::find();
        Self(Anchored::new(System { counter, started: Instant::now(), booted: since_boot() }))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn skew(&self) -> Duration {
        if self.0.source.counter.is_some() { Counter::SKEW } else { Duration::ZERO }
    }
}

/// The two clocks of a machine.
trait Source {
    /// The time since the source was created, in microseconds. It never decreases.
    fn elapsed_micros(&self) -> u64;

    fn wall(&self) -> Timestamp;
}

/// The elapsed time of a source, counted from its wall clock at the start.
#[derive(Clone, Copy, Debug)]
struct Anchored<S> {
    source: S,
    start: Timestamp,
}

impl<S: Source> Anchored<S> {
    fn new(source: S) -> Self {
        let start = source.wall();
        Self { source, start }
    }

    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.start.as_micros().saturating_add(self.source.elapsed_micros()))
    }
}

#[derive(Clone, Copy, Debug)]
struct System {
    /// `None` where the kernel does not keep time by it.
    counter: Option<Counter>,
    started: Instant,
    /// In nanoseconds; `None` where the system has no clock that counts time asleep.
    booted: Option<u64>,
}

impl Source for System {
    #[inline]
    fn elapsed_micros(&self) -> u64 {
        let now = match &self.counter {
            Some(counter) => counter.extend(since_boot),
            None => since_boot(),
        };
        match (self.booted, now) {
            (Some(booted), Some(now)) => now.saturating_sub(booted) / NANOS_PER_MICRO,
            _ => u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }

    fn wall(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Reads the clock that counts time asleep, in nanoseconds.
///
/// On Linux it takes no system call: the vDSO has had this clock since Linux 5.3.
#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "fuchsia",
    target_os = "openbsd",
    target_vendor = "apple"
))]
fn since_boot() -> Option<u64> {
    use rustix::time::{DynamicClockId, clock_gettime_dynamic};

    #[cfg(not(target_vendor = "apple"))]
    let clock = DynamicClockId::Boottime;
    // On Apple's systems this clock counts time asleep; `Instant` reads a different one.
    #[cfg(target_vendor = "apple")]
    let clock = DynamicClockId::Known(rustix::time::ClockId::Monotonic);
    // `clock_gettime` would panic where a sandbox denies the clock.
    let time: Duration = clock_gettime_dynamic(clock).ok()?.try_into().ok()?;
    u64::try_from(time.as_nanos()).ok()
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "fuchsia",
    target_os = "openbsd",
    target_vendor = "apple"
)))]
fn since_boot() -> Option<u64> {
    None
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use counter::Counter;

/// A counter that no other system has.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[derive(Clone, Copy, Debug)]
enum Counter {}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
impl Counter {
    const SKEW: Duration = Duration::ZERO;

    fn find() -> Option<Self> {
        None
    }

    fn extend(self, _: impl Fn() -> Option<u64>) -> Option<u64> {
        match self {}
    }
}

const NANOS_PER_MICRO: u64 = 1_000;

#[cfg(test)]
mod tests;
