//! Limits how often a log line is written, and counts the occurrences in between.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::Timestamp;

/// Lets a line through at once and then at most once per interval, with the number of occurrences in between.
///
/// A line that is logged only once is easily missed, and a client could choose its time by sending a request that causes it.
#[derive(Debug, Default)]
pub struct LogThrottle {
    /// The time of the last line, in microseconds plus one; 0 before the first line.
    last: AtomicU64,
    unlogged: AtomicU64,
}

impl LogThrottle {
    /// A throttle that has let no line through.
    pub const fn new() -> Self {
        Self { last: AtomicU64::new(0), unlogged: AtomicU64::new(0) }
    }

    /// Counts one occurrence. If a line may be logged now, returns the count since the last one, including this one.
    ///
    /// `now` may count from any start, as long as it is the same in all calls.
    pub fn due(&self, now: Timestamp, interval: Duration) -> Option<u64> {
        self.unlogged.fetch_add(1, Relaxed);
        let line = now.as_micros().saturating_add(1);
        let last = self.last.load(Relaxed);
        // If the clock was set back by more than an interval, log at once instead of waiting until it catches up.
        let is_due = last == 0 || u128::from(line.abs_diff(last)) >= interval.as_micros();
        let is_mine = is_due && self.last.compare_exchange(last, line, Relaxed, Relaxed).is_ok();
        is_mine.then(|| self.unlogged.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hourly_line_has_the_count_of_all_events() {
        let throttle = LogThrottle::new();
        let hour = Duration::from_secs(3_600);
        let at = |seconds: u64| throttle.due(Timestamp::from_micros(seconds * 1_000_000), hour);
        assert_eq!([at(0), at(1), at(3_599)], [Some(1), None, None]);
        assert_eq!([at(3_600), at(7_199), at(7_200)], [Some(3), None, Some(2)]);
        assert_eq!([at(5_000), at(3_000), at(3_001)], [None, Some(2), None]);
    }
}
