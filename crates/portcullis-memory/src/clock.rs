//! Real time.

use std::time::{Instant, SystemTime};

use portcullis_core::{Clock, Timestamp};

/// Monotonic time, set by the wall clock once.
///
/// It starts at the wall clock's instant and from there follows the monotonic clock, so that nobody is locked out or
/// let in when the wall clock is corrected. Epoch-anchored windows drift from the wall clock by as much as the wall
/// clock is corrected while the process runs.
///
/// ```
/// use portcullis_core::Clock;
/// use portcullis_memory::SystemClock;
///
/// let clock = SystemClock::new();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    wall: Timestamp,
}

impl SystemClock {
    /// A clock anchored to the wall clock now.
    pub fn new() -> Self {
        Self { started: Instant::now(), wall: SystemTime::now().into() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.wall.saturating_add(self.started.elapsed())
    }
}
