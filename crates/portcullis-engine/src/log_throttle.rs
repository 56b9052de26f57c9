//! Throttled log lines, by the clock of the runtime.

use std::sync::OnceLock;
use std::time::Duration;

use portcullis_core::Timestamp;
use portcullis_core::log::LogThrottle as Throttle;
use tokio::time::Instant;

/// A [`Throttle`] with its interval.
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    start: OnceLock<Instant>,
    throttle: Throttle,
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
        Self { interval, start: OnceLock::new(), throttle: Throttle::new() }
    }

    /// Counts one occurrence. If a line may be logged now, returns the count since the last one, including this one.
    pub fn due(&self) -> Option<u64> {
        let elapsed = self.start.get_or_init(Instant::now).elapsed();
        self.throttle.due(Timestamp::EPOCH.saturating_add(elapsed), self.interval)
    }
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
