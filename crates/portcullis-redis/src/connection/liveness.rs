//! Whether a connection still answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Notices a server that accepts everything and answers nothing.
///
/// fred's own detection starts anew with every write, so that under steady traffic it finds nothing, and it
/// does not look at all while a write waits for the socket.
#[derive(Debug)]
pub(super) struct Liveness {
    born: Instant,
    /// Milliseconds from birth to the first call without a reply since the last reply; 0 if there is none.
    silent_since: AtomicU64,
    /// Whether the server has taken a write.
    served: AtomicBool,
    given_up: Notify,
}

impl Liveness {
    pub(super) fn new() -> Self {
        Self {
            born: Instant::now(),
            silent_since: AtomicU64::new(0),
            served: AtomicBool::new(false),
            given_up: Notify::new(),
        }
    }

    /// Notes a reply.
    pub(super) fn reply(&self) {
        if self.silent_since.load(Ordering::Relaxed) != 0 {
            self.silent_since.store(0, Ordering::Relaxed);
        }
    }

    /// Notes a call that has written. One that only read is no proof: a replica answers it as well.
    pub(super) fn success(&self) {
        self.reply();
        if !self.served.load(Ordering::Relaxed) {
            self.served.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the server takes no writes, and gives the connection up: behind a name there may be another primary
    /// by now. A connection that never served is kept for a while, because it leads to the same replica again.
    pub(super) fn read_only(&self) {
        self.reply();
        if self.served.load(Ordering::Relaxed) || self.born.elapsed() >= PATIENCE_WITH_A_REPLICA {
            self.give_up();
        }
    }

    /// Notes a call without a reply, and gives the connection up if there was none for a while.
    pub(super) fn silence(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let first = self.silent_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|since| now.saturating_sub(since) >= LONGEST_SILENCE_MS) {
            self.give_up();
        }
    }

    /// Asks for a new connection in place of this one.
    fn give_up(&self) {
        self.given_up.notify_one();
    }

    /// Waits until somebody asks for a new connection.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

/// Longer than any pause of a healthy server, a snapshot or a slow disk included.
const LONGEST_SILENCE_MS: u64 = 1_000;
const PATIENCE_WITH_A_REPLICA: Duration = Duration::from_secs(10);
