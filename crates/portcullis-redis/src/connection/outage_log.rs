//! What is logged of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::Instant;

use super::error::ConnectError;

/// Writes one line when a server goes away and one when it is back; of one that comes and goes, a pair a second. If it is back
/// and refuses us for good, one line in between says so; if it lacks nothing but a right of our user, one line says that.
#[derive(Debug)]
pub(super) struct OutageLog {
    server: String,
    /// The address of a cluster's node.
    node: Option<String>,
    down: AtomicBool,
    /// Whether it was said in this outage what time does not heal.
    refused: AtomicBool,
    /// Whether it was said that our user lacks a right, and nobody was served since.
    denied: AtomicBool,
    born: Instant,
    /// Milliseconds from birth to the earliest next line about an outage.
    next: AtomicU64,
    /// The same of a right.
    next_denied: AtomicU64,
}

impl OutageLog {
    pub(super) fn new(server: String, node: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            server,
            node,
            down: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            denied: AtomicBool::new(false),
            born: Instant::now(),
            next: AtomicU64::new(0),
            next_denied: AtomicU64::new(0),
        })
    }

    /// Notes a failure. It is to be repeated while there is one, since a line that comes too soon is left out.
    pub(super) fn down(&self, reason: &str) {
        let now = self.now();
        if now < self.next.load(Ordering::Relaxed) || self.down.swap(true, Ordering::Relaxed) {
            return;
        }
        self.next.store(now.saturating_add(APART_MS), Ordering::Relaxed);
        if let Some(node) = &self.node {
            tracing::warn!(server = %self.server, %node, %reason, "a redis node is unavailable");
        } else {
            tracing::warn!(server = %self.server, %reason, "redis is unavailable");
        }
    }

    /// Notes why a connection could not be made while the server is down. Nobody waits for connecting by then, so that what time
    /// does not heal is told here, once.
    pub(super) fn refused(&self, reply: &str) {
        if !self.down.load(Ordering::Relaxed) || self.refused.load(Ordering::Relaxed) {
            return;
        }
        let url = self.node.as_ref().unwrap_or(&self.server);
        if let Some(error) = ConnectError::from_reply(url, reply)
            && !self.refused.swap(true, Ordering::Relaxed)
        {
            tracing::error!(server = %self.server, "{error}");
        }
    }

    pub(super) fn up(&self) {
        if !self.down.swap(false, Ordering::Relaxed) {
            return;
        }
        self.refused.store(false, Ordering::Relaxed);
        if let Some(node) = &self.node {
            tracing::info!(server = %self.server, %node, "a redis node is available again");
        } else {
            tracing::info!(server = %self.server, "redis is available again");
        }
    }

    /// Notes that our user lacks a right, which is told once until somebody is served, and at most once a minute.
    pub(super) fn denied(&self, reply: &str) {
        if self.denied.load(Ordering::Relaxed) || self.now() < self.next_denied.load(Ordering::Relaxed) {
            return;
        }
        if let Some(error) = ConnectError::from_reply(&self.server, reply) {
            self.misused(&error);
        }
    }

    /// Notes that the server cannot be used as it is.
    pub(super) fn misused(&self, error: &ConnectError) {
        if !self.denied.swap(true, Ordering::Relaxed) {
            self.next_denied.store(self.now().saturating_add(DENIALS_APART_MS), Ordering::Relaxed);
            tracing::error!(server = %self.server, "{error}");
        }
    }

    /// Notes that somebody was served.
    pub(super) fn served(&self) {
        // In good times no core takes the cache line from another.
        if self.denied.load(Ordering::Relaxed) {
            self.denied.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that a node is no longer needed.
    pub(super) fn gone(&self) {
        if let (Some(node), true) = (&self.node, self.down.swap(false, Ordering::Relaxed)) {
            tracing::info!(server = %self.server, %node, "the cluster goes on without a redis node");
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

const APART_MS: u64 = 1_000;
const DENIALS_APART_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::server::Log;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_and_goes_is_told_of_once_a_second_and_one_that_stays_away_always() {
        let log = Log::capture();
        let outage_log = OutageLog::new("here".into(), Some("there".into()));
        for _ in 0..100 {
            outage_log.down("it flaps");
            outage_log.up();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let lines = log.lines().len();
        assert!((8..=12).contains(&lines), "{lines}");
        for _ in 0..100 {
            outage_log.down("it is away");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(log.lines().len(), lines + 1);
        assert!(log.lines()[lines].contains("there"), "{:?}", log.lines());
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_that_is_lost_is_told_once_until_somebody_is_served_and_once_a_minute() {
        let log = Log::capture();
        let outage_log = OutageLog::new("here".into(), None);
        for _ in 0..600 {
            outage_log.denied("NOPERM this user has no permissions to run the 'set' command");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(log.lines().len(), 1, "{:#?}", log.lines());
        for _ in 0..600 {
            outage_log.denied("NOPERM this user has no permissions to run the 'set' command");
            outage_log.served();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!((10..=12).contains(&log.lines().len()), "{:#?}", log.lines());
    }
}
