//! Detects when an outage of the store begins and ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// The outage of the store that a layer sees, if there is one.
#[derive(Debug)]
pub struct Outage {
    is_failing: AtomicBool,
    is_long: AtomicBool,
    created: Instant,
    /// In milliseconds since `created`.
    last_failure: AtomicU64,
}

impl Outage {
    /// Records a failure. Returns whether an outage begins with it.
    pub fn begin(&self) -> bool {
        self.last_failure.store(self.millis(), Relaxed);
        !self.is_failing.swap(true, Relaxed)
    }

    /// Records that the outage lasts longer than a policy is open. Returns whether it was not recorded before.
    pub fn outlast(&self) -> bool {
        !self.is_long.swap(true, Relaxed)
    }

    /// Whether an outage has begun and not ended.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed)
    }

    /// Records an answer. Returns whether an outage ends with it.
    pub fn end(&self) -> bool {
        // A load first, so that cores share the cache line while the store answers.
        if !self.is_failing() {
            return false;
        }
        // An unstable store fails and answers in turns; it has recovered once it has not failed for a while.
        let since = Duration::from_millis(self.millis().saturating_sub(self.last_failure.load(Relaxed)));
        let has_ended = since >= RECOVERED_AFTER && self.is_failing.swap(false, Relaxed);
        if has_ended {
            self.is_long.store(false, Relaxed);
        }
        has_ended
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Outage {
    fn default() -> Self {
        Self {
            is_failing: AtomicBool::default(),
            is_long: AtomicBool::default(),
            created: Instant::now(),
            last_failure: AtomicU64::default(),
        }
    }
}

const RECOVERED_AFTER: Duration = Duration::from_secs(1);
