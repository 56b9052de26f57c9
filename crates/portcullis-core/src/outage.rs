//! Detects when an outage of a store begins and ends, so that each is reported once. Hidden: for the engine.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::Timestamp;

/// Knows when a store has failed last, until it answers again.
#[derive(Debug, Default)]
pub struct Outage {
    /// The time of the last failure in microseconds, and one more; 0 if the store answers.
    failed_at: AtomicU64,
    /// Whether it has lasted for longer than calls are admitted.
    is_outlasted: AtomicBool,
}

impl Outage {
    /// Records a failure. Returns whether an outage begins with it.
    pub fn failed(&self, now: Timestamp) -> bool {
        self.failed_at.swap(now.as_micros().saturating_add(1), Relaxed) == 0
    }

    /// Records that calls are admitted no longer. Returns whether this is the first time in the outage.
    pub fn outlast(&self) -> bool {
        !self.is_outlasted.swap(true, Relaxed)
    }

    /// Whether an outage has begun and not ended.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.failed_at.load(Relaxed) != 0
    }

    /// Records an answer. Returns whether an outage ends with it. Reads the clock only during an outage.
    pub fn answered(&self, now: impl FnOnce() -> Timestamp) -> bool {
        // A load first, so that cores share the cache line while the store answers.
        let failed_at = self.failed_at.load(Relaxed);
        if failed_at == 0 {
            return false;
        }
        // An unstable store fails and answers in turns; it has recovered once it has not failed for a while.
        let since = Duration::from_micros(now().as_micros().saturating_add(1).saturating_sub(failed_at));
        let has_ended = since >= RECOVERED_AFTER
            && self.failed_at.compare_exchange(failed_at, 0, Relaxed, Relaxed).is_ok();
        if has_ended {
            self.is_outlasted.store(false, Relaxed);
        }
        has_ended
    }
}

const RECOVERED_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_ends_one_second_after_its_failures() {
        let outage = Outage::default();
        let at = |millis| Timestamp::EPOCH.saturating_add(Duration::from_millis(millis));
        assert!(!outage.answered(|| unreachable!("no clock is read")));
        assert_eq!([outage.failed(at(0)), outage.failed(at(500))], [true, false]);
        assert_eq!([outage.outlast(), outage.outlast()], [true, false]);
        assert!(!outage.answered(|| at(1_499)) && outage.is_failing());
        assert!(outage.answered(|| at(1_500)) && !outage.is_failing());
        assert!(outage.failed(at(1_501)) && outage.outlast());
    }
}
