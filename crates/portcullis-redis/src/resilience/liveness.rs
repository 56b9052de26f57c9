//! Detects a connection that no longer answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Detects a server that accepts commands and does not reply. The client's own detection restarts with every write.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// When the connection was made.
    pub(crate) created: Instant,
    /// Milliseconds from `created` to the first call without a reply since the last reply; 0 if there is none.
    unanswered_since: AtomicU64,
    /// Whether the server has accepted a write.
    served: AtomicBool,
    given_up: Notify,
}

impl Liveness {
    pub(crate) fn new() -> Self {
        Self {
            created: Instant::now(),
            unanswered_since: AtomicU64::new(0),
            served: AtomicBool::new(false),
            given_up: Notify::new(),
        }
    }

    /// Records a reply.
    pub(crate) fn reply(&self) {
        if self.unanswered_since.load(Ordering::Relaxed) != 0 {
            self.unanswered_since.store(0, Ordering::Relaxed);
        }
    }

    /// Records a call that has written. A call that only read proves nothing: a replica answers it as well.
    pub(crate) fn success(&self) {
        self.reply();
        if !self.served.load(Ordering::Relaxed) {
            self.served.store(true, Ordering::Relaxed);
        }
    }

    /// Records that the server does not accept writes, and asks for a new connection: the same name may lead to another primary
    /// by now. A connection on which no write ever succeeded is kept for a while, because a new one leads to the same replica.
    pub(crate) fn read_only(&self) {
        self.reply();
        if self.served.load(Ordering::Relaxed) || self.created.elapsed() >= MIN_AGE_ON_REPLICA {
            self.given_up.notify_one();
        }
    }

    /// Records a call without a reply, and asks for a new connection if there was no reply for a while.
    pub(crate) fn no_reply(&self) {
        let now = u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let first = self.unanswered_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|since| now.saturating_sub(since) >= LONGEST_UNANSWERED_MS) {
            self.given_up.notify_one();
        }
    }

    /// Waits until a new connection is requested.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

/// Longer than any pause of a healthy server, including a snapshot or a slow disk.
const LONGEST_UNANSWERED_MS: u64 = 1_000;
const MIN_AGE_ON_REPLICA: Duration = Duration::from_secs(10);
