//! The log lines about a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use portcullis_log::codes;
use tokio::time::Instant;
use tracing::field::{DisplayValue, display};

use crate::transport::{CallError, ConnectError};

/// Logs one line when a server cannot answer and one when it answers again, at most one pair per second; and one if it
/// permanently refuses the connection, if the user lacks a permission, and if it refuses `SCRIPT LOAD`.
#[derive(Debug)]
pub(crate) struct OutageLog {
    server: String,
    /// The address of a cluster's node.
    node: Option<String>,
    down: AtomicBool,
    /// Whether a permanent error was logged in this outage.
    refused: AtomicBool,
    /// Whether a missing permission was logged, and no call was served since.
    denied: AtomicBool,
    /// Whether a refusal of `SCRIPT LOAD` was logged, shared by the nodes of a cluster.
    load_refused: Arc<AtomicBool>,
    created: Instant,
    /// Milliseconds from `created` to the earliest next line about an outage.
    next: AtomicU64,
    /// Milliseconds from `created` to the earliest next line about a permission.
    next_denied: AtomicU64,
}

impl OutageLog {
    pub(crate) fn new(server: String, node: Option<String>) -> Arc<Self> {
        Self::sharing(server, node, Arc::default())
    }

    /// The log of a node of this cluster.
    pub(crate) fn of_node(&self, node: String) -> Arc<Self> {
        Self::sharing(self.server.clone(), Some(node), Arc::clone(&self.load_refused))
    }

    fn sharing(server: String, node: Option<String>, load_refused: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            server,
            node,
            down: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            denied: AtomicBool::new(false),
            load_refused,
            created: Instant::now(),
            next: AtomicU64::new(0),
            next_denied: AtomicU64::new(0),
        })
    }

    /// Records a failure. Call it repeatedly during an outage, because a line that comes too soon is left out.
    pub(crate) fn down(&self, reason: &str) {
        let now = self.now();
        if now < self.next.load(Ordering::Relaxed) || self.down.swap(true, Ordering::Relaxed) {
            return;
        }
        self.next.store(now.saturating_add(MIN_INTERVAL_MS), Ordering::Relaxed);
        tracing::warn!(code = %codes::REDIS_DOWN, server = %self.server, node = self.node(), %reason, "{} cannot answer", self.subject());
    }

    /// Records why a connection could not be made while the server is down. A permanent error is logged here, once.
    pub(crate) fn refused(&self, reply: &str) {
        if !self.down.load(Ordering::Relaxed) || self.refused.load(Ordering::Relaxed) {
            return;
        }
        let url = self.node.as_ref().unwrap_or(&self.server);
        if let Some(error) = ConnectError::from_reply(url, reply)
            && !self.refused.swap(true, Ordering::Relaxed)
        {
            tracing::error!(code = %error.code(), server = %self.server, "{error}");
        }
    }

    pub(crate) fn up(&self) {
        if !self.down.swap(false, Ordering::Relaxed) {
            return;
        }
        self.refused.store(false, Ordering::Relaxed);
        tracing::info!(server = %self.server, node = self.node(), "{} answers again", self.subject());
    }

    /// Records that the user lacks a permission. Logs it once until a call is served, and at most once a minute.
    pub(crate) fn denied(&self, reply: &str) {
        if self.denied.load(Ordering::Relaxed) || self.now() < self.next_denied.load(Ordering::Relaxed) {
            return;
        }
        if let Some(error) = ConnectError::from_reply(&self.server, reply) {
            self.unusable(&error);
        }
    }

    /// Records that the server cannot be used as it is.
    pub(crate) fn unusable(&self, error: &ConnectError) {
        if !self.denied.swap(true, Ordering::Relaxed) {
            self.next_denied.store(self.now().saturating_add(DENIAL_INTERVAL_MS), Ordering::Relaxed);
            tracing::error!(code = %error.code(), server = %self.server, "{error}");
        }
    }

    /// Records that the server refuses `SCRIPT LOAD` and runs scripts by `EVAL`. Logs it once.
    pub(crate) fn load_refused(&self, refusal: &CallError) {
        if !self.load_refused.swap(true, Ordering::Relaxed) {
            let node = self.node.as_deref();
            tracing::info!(server = %self.server, node, reason = %refusal, "{BY_EVAL}");
        }
    }

    /// Records that a call was served.
    pub(crate) fn served(&self) {
        // In normal operation no core takes the cache line from another.
        if self.denied.load(Ordering::Relaxed) {
            self.denied.store(false, Ordering::Relaxed);
        }
    }

    /// Records that a node is no longer needed.
    pub(crate) fn removed(&self) {
        if let (Some(node), true) = (&self.node, self.down.swap(false, Ordering::Relaxed)) {
            tracing::info!(server = %self.server, %node, "the cluster continues without a redis node");
        }
    }

    fn node(&self) -> Option<DisplayValue<&String>> {
        self.node.as_ref().map(display)
    }

    fn subject(&self) -> &'static str {
        if self.node.is_some() { "a redis node" } else { "redis" }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

const BY_EVAL: &str = "redis refuses SCRIPT LOAD, so a script is sent with EVAL whenever the server lacks it, by each call \
    that misses it; to load it once for all calls, grant the user +script|load, or enable the command SCRIPT";
const MIN_INTERVAL_MS: u64 = 1_000;
const DENIAL_INTERVAL_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::connection::tests::server::Log;

    #[tokio::test(start_paused = true)]
    async fn flapping_is_logged_once_a_second_and_a_lasting_outage_once() {
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
    async fn lost_permission_is_logged_each_minute() {
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

    #[test]
    fn refused_load_is_logged_once_per_cluster() {
        let log = Log::capture();
        let outage_log = OutageLog::new("here".into(), None);
        let nodes = ["there", "elsewhere"].map(|node| outage_log.of_node(node.to_owned()));
        for _ in 0..2 {
            for node in &nodes {
                node.load_refused(&CallError::Denied("NOPERM".into()));
            }
        }
        let [line] = &log.lines()[..] else { panic!("{:#?}", log.lines()) };
        assert!(line.contains("INFO") && line.contains("SCRIPT LOAD") && line.contains("there"), "{line}");
    }
}
