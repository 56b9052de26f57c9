//! Lets decisions leave that have waited for long enough.

use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep_until};

use super::Link;
use crate::resilience::combining::Due;

/// The task that watches over what waits. If its runtime ends before it does, what waits is dropped, and the callers get an error.
pub(super) struct Watch {
    link: Weak<Link>,
    /// When it looks; `None` when there is nothing left to watch.
    next: Option<Instant>,
}

impl Watch {
    /// Looks for the first time at `first`.
    pub(super) fn new(link: &Arc<Link>, first: Instant) -> Self {
        Self { link: Arc::downgrade(link), next: Some(first) }
    }

    pub(super) async fn run(mut self) {
        while let Some(at) = self.next {
            sleep_until(at).await;
            let Some(link) = self.link.upgrade() else { return };
            let Due { calls, next } = link.combining.due(at, Instant::now());
            self.next = next;
            for (lane, decisions) in calls {
                link.send_combined(&lane, decisions);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.next.is_some()
            && let Some(link) = self.link.upgrade()
        {
            drop(link.combining.clear());
        }
    }
}
