//! Limits how often a log line is written, and counts the occurrences in between.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// Lets a line through at once and then at most once per interval, with the number of occurrences in between.
///
/// A line that is logged only once is easily missed, and a client could choose its time by sending a request that causes it.
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    start: OnceLock<Instant>,
    /// In milliseconds since the start.
    not_before: AtomicU64,
    unlogged: AtomicU64,
}

impl LogThrottle {
    /// For lines about requests.
    pub const fn per_minute() -> Self {
        Self::new(Duration::from_secs(60))
    }

    /// For lines about a configuration, which last until an operator changes it.
    pub const fn hourly() -> Self {
        Self::new(Duration::from_secs(3_600))
    }

    const fn new(interval: Duration) -> Self {
        Self { interval, start: OnceLock::new(), not_before: AtomicU64::new(0), unlogged: AtomicU64::new(0) }
    }

    /// Counts one occurrence. If a line may be logged now, returns the count since the last one, including this one.
    pub fn due(&self) -> Option<u64> {
        self.unlogged.fetch_add(1, Relaxed);
        let now = millis(self.start.get_or_init(Instant::now).elapsed());
        let not_before = self.not_before.load(Relaxed);
        let next = now.saturating_add(millis(self.interval));
        let is_mine =
            now >= not_before && self.not_before.compare_exchange(not_before, next, Relaxed, Relaxed).is_ok();
        is_mine.then(|| self.unlogged.swap(0, Relaxed))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_due_at_once_and_then_per_interval() {
        let throttle = LogThrottle::hourly();
        assert_eq!(throttle.due(), Some(1));
        for _ in 0..9 {
            assert_eq!(throttle.due(), None);
        }
        tokio::time::advance(Duration::from_mins(59)).await;
        assert_eq!(throttle.due(), None);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(throttle.due(), Some(11));
        assert_eq!(throttle.due(), None);
    }
}
