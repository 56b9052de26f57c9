//! Log lines about a configuration, which last until an operator changes it.

use std::sync::OnceLock;
use std::time::Duration;

use portcullis_core::Timestamp;
use portcullis_core::log::LogThrottle;
use tokio::time::Instant;

/// Counts one occurrence. A line is due once an hour, by the clock of the runtime, which tests can pause.
pub(crate) fn due_hourly(throttle: &LogThrottle) -> Option<u64> {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    throttle.due(Timestamp::EPOCH.saturating_add(elapsed), HOUR)
}

const HOUR: Duration = Duration::from_secs(3_600);
