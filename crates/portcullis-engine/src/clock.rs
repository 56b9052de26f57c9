//! The clocks of the host.

use portcullis_core::{Clock, Timestamp};
use tokio::time::Instant;

/// The time of day when it was made, which advances by the clock of the runtime: tests can pause it, and nothing sets it back.
#[derive(Debug)]
pub struct RuntimeClock {
    start: Instant,
    time_of_day: Timestamp,
}

impl Default for RuntimeClock {
    fn default() -> Self {
        Self { start: Instant::now(), time_of_day: SystemClock.now() }
    }
}

/// The time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        std::time::SystemTime::now().into()
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.time_of_day.saturating_add(self.start.elapsed())
    }
}
