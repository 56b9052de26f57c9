//! Tasks that look at what waits, whenever something of it is due.

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// Looks at `watched` at `first`, then at each instant that `look` returns. Calls `end` if the runtime ends before that is none.
pub(crate) fn watch<T: Send + Sync + 'static>(
    runtime: &Handle,
    watched: &Arc<T>,
    first: Instant,
    look: fn(&Arc<T>, Instant) -> Option<Instant>,
    end: fn(&T),
) {
    let mut watch = Watch { watched: Arc::downgrade(watched), next: Some(first), end };
    runtime.spawn(async move {
        while let Some(at) = watch.next {
            sleep_until(at).await;
            let Some(watched) = watch.watched.upgrade() else { return };
            watch.next = look(&watched, at);
        }
    });
}

struct Watch<T> {
    watched: Weak<T>,
    next: Option<Instant>,
    end: fn(&T),
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        if self.next.is_some()
            && let Some(watched) = self.watched.upgrade()
        {
            (self.end)(&watched);
        }
    }
}
