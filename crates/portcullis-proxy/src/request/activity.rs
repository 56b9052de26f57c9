//! The time since an exchange has made progress, and the side that has to make the next step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The progress of one request and its response, which both bodies report.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
    is_sent: AtomicBool,
    awaits_client: AtomicBool,
    is_broken: AtomicBool,
    is_slow: AtomicBool,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            is_sent: AtomicBool::new(false),
            awaits_client: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Bytes were passed on, in any direction.
    pub(crate) fn progress(&self) {
        let millis = self.begun.elapsed().as_millis();
        self.last.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The body of the request has ended.
    pub(crate) fn sent(&self) {
        self.is_sent.store(true, Ordering::Relaxed);
        self.progress();
    }

    /// Whether the next bytes of the request have to come from the client.
    pub(crate) fn awaits_client(&self, awaits: bool) {
        self.awaits_client.store(awaits, Ordering::Relaxed);
    }

    /// The body of the request is malformed, or has broken off.
    pub(crate) fn broken(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
        self.sent();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// The client has sent the body of the request too slowly.
    pub(crate) fn slow(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
        self.sent();
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::Relaxed)
    }

    pub(crate) fn is_client_idle(&self) -> bool {
        !self.is_sent() && self.awaits_client.load(Ordering::Relaxed)
    }

    /// The end of a time without progress.
    pub(crate) fn deadline(&self, idle: Duration) -> Instant {
        self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed)) + idle
    }

    /// Returns when there was no progress for that time.
    pub(crate) async fn idle_for(&self, idle: Duration) {
        loop {
            let deadline = self.deadline(idle);
            if Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_postpones_the_end() {
        let (activity, begun) = (Activity::new(), Instant::now());
        let idle = Duration::from_secs(10);
        let ended = async {
            activity.idle_for(idle).await;
            begun.elapsed().as_secs()
        };
        let progress = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            activity.progress();
        };
        assert_eq!(tokio::join!(ended, progress).0, 17);
    }

    #[test]
    fn the_client_is_idle_until_it_has_sent_all() {
        let activity = Activity::new();
        assert!(!activity.is_client_idle());
        activity.awaits_client(true);
        assert!(activity.is_client_idle());
        activity.sent();
        assert!(!activity.is_client_idle());
    }
}
