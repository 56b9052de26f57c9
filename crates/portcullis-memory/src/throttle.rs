//! Throttled log lines.

use std::time::Duration;

use portcullis_core::Timestamp;

use crate::sync::{AtomicU64, Ordering};

/// Admits the first log line at once, and then at most one per hour, with the number of events since the last line.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    /// The time of the last line on the store's clock, in microseconds plus one; 0 before the first line.
    last: AtomicU64,
    events: AtomicU64,
}

impl LogThrottle {
    /// Counts an event. Returns the number of events to log if a line is due.
    pub(crate) fn count(&self, now: Timestamp) -> Option<u64> {
        self.events.fetch_add(1, Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        let line = now.as_micros() + 1;
        // Also due after the clock was set back by hours: otherwise there would be no line for as long.
        let is_due = last == 0 || u128::from(line.abs_diff(last)) >= INTERVAL.as_micros();
        let is_mine =
            is_due && self.last.compare_exchange(last, line, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_mine.then(|| self.events.swap(0, Ordering::Relaxed))
    }
}

const INTERVAL: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hourly_line_has_the_count_of_all_events() {
        let throttle = LogThrottle::default();
        let at = |seconds: u64| throttle.count(Timestamp::from_micros(seconds * 1_000_000));
        assert_eq!([at(0), at(1), at(3_599)], [Some(1), None, None]);
        assert_eq!([at(3_600), at(7_199), at(7_200)], [Some(3), None, Some(2)]);
        assert_eq!([at(5_000), at(3_000), at(3_001)], [None, Some(2), None]);
    }
}
