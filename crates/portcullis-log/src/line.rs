//! The state of one counted line.

#[cfg(feature = "runtime")]
mod timer;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(not(feature = "runtime"))]
use std::time::Instant;
#[cfg(feature = "runtime")]
use tokio::time::Instant;

/// What a line counts since the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The events.
    pub events: u64,
    /// The units of all of them.
    pub units: u64,
}

type WriteLine = Box<dyn FnOnce(Counted) + Send>;

/// Counts events between lines.
pub(crate) struct CountedLine {
    interval: Duration,
    /// The lines that are written at once in an interval.
    at_once: u64,
    start: Instant,
    /// When the interval began, in microseconds since the start, and one more; 0 before the first event.
    began: AtomicU64,
    /// The lines that were written at once in this interval.
    lines: AtomicU64,
    events: AtomicU64,
    units: AtomicU64,
    /// Writes the events that no line has counted, as the first of them would be written.
    unsaid: Mutex<Option<WriteLine>>,
    is_unsaid: AtomicBool,
    #[cfg(feature = "runtime")]
    has_timer: AtomicBool,
    /// Whether the line is among those that are written at the end of the process.
    pub(crate) is_listed: AtomicBool,
}

impl CountedLine {
    pub(crate) fn new(interval: Duration, at_once: u64) -> Self {
        Self {
            interval,
            at_once,
            start: Instant::now(),
            began: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            events: AtomicU64::new(0),
            units: AtomicU64::new(0),
            unsaid: Mutex::new(None),
            is_unsaid: AtomicBool::new(false),
            #[cfg(feature = "runtime")]
            has_timer: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Counts an event. Returns what a line has to count that is due now.
    pub(crate) fn count(&self, units: u64) -> Option<Counted> {
        if self.is_due() {
            self.take_unsaid();
            let before = self.take_counted();
            return Some(Counted { events: before.events + 1, units: before.units.saturating_add(units) });
        }
        self.events.fetch_add(1, Relaxed);
        self.units.fetch_add(units, Relaxed);
        None
    }

    /// Whether a line may be written at once.
    fn is_due(&self) -> bool {
        let (now, began) = (self.now(), self.began.load(Relaxed));
        if self.is_over(now, began) {
            let is_first = self.began.compare_exchange(began, now, Relaxed, Relaxed).is_ok();
            if is_first {
                self.lines.store(1, Relaxed);
            }
            return is_first;
        }
        self.lines.load(Relaxed) < self.at_once && self.lines.fetch_add(1, Relaxed) < self.at_once
    }

    fn is_over(&self, now: u64, began: u64) -> bool {
        began == 0 || u128::from(now.saturating_sub(began)) >= self.interval.as_micros()
    }

    /// Microseconds since the start, and one more.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Keeps what writes the events that were counted, and starts the timer that does so if there is a runtime.
    pub(crate) fn write_later<W: FnOnce(Counted) + Send + 'static>(
        self: &Arc<Self>,
        line: impl FnOnce() -> W,
    ) {
        if !self.is_unsaid.load(SeqCst) {
            // A timer runs on another thread, which may have another subscriber.
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let write = line();
            let write = move |counted| tracing::dispatcher::with_default(&dispatch, || write(counted));
            *self.lock() = Some(Box::new(write));
            self.is_unsaid.store(true, SeqCst);
        }
        #[cfg(feature = "runtime")]
        timer::start(self);
    }

    /// How long the interval still lasts.
    #[cfg(feature = "runtime")]
    fn left(&self) -> Duration {
        let since = Duration::from_micros(self.now().saturating_sub(self.began.load(Relaxed)));
        self.interval.saturating_sub(since)
    }

    /// Writes the events that no line has counted, if there are any. The next interval begins.
    pub(crate) fn write_unsaid(&self) {
        let Some(write) = self.take_unsaid() else { return };
        let counted = self.take_counted();
        if counted.events > 0 {
            self.began.store(self.now(), Relaxed);
            self.lines.store(1, Relaxed);
            write(counted);
        }
    }

    fn take_unsaid(&self) -> Option<WriteLine> {
        if !self.is_unsaid.load(SeqCst) {
            return None;
        }
        let mut unsaid = self.lock();
        self.is_unsaid.store(false, SeqCst);
        unsaid.take()
    }

    fn take_counted(&self) -> Counted {
        Counted { events: self.events.swap(0, Relaxed), units: self.units.swap(0, Relaxed) }
    }

    /// It is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Option<WriteLine>> {
        self.unsaid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CountedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedLine").field("events", &self.events).finish_non_exhaustive()
    }
}
