//! How often a line is written.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::line::{Counted, CountedLine};
use crate::unsaid::UnsaidLines;

/// Writes the first lines of an interval at once, and counts the events after them. When the interval is over, one line has their
/// number: a timer writes it on the runtime that has counted the first of them, and ends with it. Without a runtime, or without the
/// feature `runtime`, the next event writes it, or the [end of the process](UnsaidLines).
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    at_once: u64,
    line: OnceLock<Arc<CountedLine>>,
}

impl LogThrottle {
    /// For lines about requests: one a minute.
    pub const fn per_minute() -> Self {
        Self::every(MINUTE)
    }

    /// For lines about each of some requests: as many as this at once in a minute, and one for the others.
    pub const fn at_most_per_minute(lines: u64) -> Self {
        Self::new(MINUTE, lines)
    }

    /// For lines about a configuration, which last until an operator changes it.
    pub const fn hourly() -> Self {
        Self::every(HOUR)
    }

    /// For lines of which one is written in an interval.
    pub const fn every(interval: Duration) -> Self {
        Self::new(interval, 1)
    }

    const fn new(interval: Duration, at_once: u64) -> Self {
        Self { interval, at_once, line: OnceLock::new() }
    }

    /// Counts one event of so many units. `line` is called if a line is written now or later, and makes what writes it: a closure that
    /// owns what it needs, as it may outlast the event. `unsaid` keeps lines for the end of a limiter; without it, those
    /// [of the process](UnsaidLines::of_process) do.
    pub fn count<W: FnOnce(Counted) + Send + 'static>(
        &self,
        units: u64,
        unsaid: Option<&UnsaidLines>,
        line: impl FnOnce() -> W,
    ) {
        let counted = self.line.get_or_init(|| Arc::new(CountedLine::new(self.interval, self.at_once)));
        if let Some(now) = counted.count(units) {
            return line()(now);
        }
        counted.write_later(line);
        unsaid.unwrap_or_else(|| UnsaidLines::of_process()).add(counted);
    }

    /// Writes what was counted and not stated, if there is any, before a line that ends it.
    pub fn write_unsaid(&self) {
        if let Some(line) = self.line.get() {
            line.write_unsaid();
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

#[cfg(feature = "runtime")]
#[cfg(test)]
mod tests;
