//! Whether the store fails, so that an outage is reported once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Knows when the store has failed last, until it answers again.
#[derive(Debug)]
pub(super) struct Outage {
    start: Instant,
    /// The milliseconds from the start to the last failure, and one more; 0 if the store answers.
    failed_at: AtomicU64,
    /// Whether it has lasted for longer than calls are admitted.
    is_outlasted: AtomicBool,
}

impl Outage {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), failed_at: AtomicU64::new(0), is_outlasted: AtomicBool::new(false) }
    }

    /// Records a failure. Returns whether an outage begins.
    pub(super) fn failed(&self) -> bool {
        let is_new = self.failed_at.swap(self.now(), Relaxed) == 0;
        if is_new {
            self.is_outlasted.store(false, Relaxed);
        }
        is_new
    }

    /// Records that calls are admitted no longer. Returns whether this is the first time in the outage.
    pub(super) fn outlast(&self) -> bool {
        !self.is_outlasted.swap(true, Relaxed)
    }

    /// Records an answer. Returns whether an outage ends: the store has not failed for a second.
    pub(super) fn answered(&self) -> bool {
        let failed_at = self.failed_at.load(Relaxed);
        failed_at != 0
            && self.now().saturating_sub(failed_at) > 1_000
            && self.failed_at.compare_exchange(failed_at, 0, Relaxed, Relaxed).is_ok()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}
