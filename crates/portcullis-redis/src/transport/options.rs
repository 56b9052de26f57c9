//! Options of a connection.

use std::sync::Arc;
use std::time::Duration;

use crate::stats::StoreStats;

/// How a [`Connection`](crate::connection::Connection) behaves; `Options::default()` suits most services.
#[must_use]
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) deadline: Duration,
    pub(crate) connect_wait: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) pool_size: usize,
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) max_in_flight: usize,
    /// What all connections count.
    pub(crate) stats: Arc<StoreStats>,
}

impl Options {
    /// Sets how long one call may take, including a reload of the script and a retry: 50 ms by default, at least 1 ms.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.clamp(Duration::from_millis(1), LONGEST_WAIT);
        self
    }

    /// Sets how long opening waits for the server before it returns without a connection: 1 s by default.
    pub(crate) fn connect_wait(mut self, wait: Duration) -> Self {
        self.connect_wait = wait.min(LONGEST_WAIT);
        self
    }

    /// Sets how many calls may wait, per connection, while [`MAX_IN_FLIGHT`] are in flight: 10 000 by default, at least 1. More
    /// are rejected as overloaded. One key has at most 1/16 of them.
    pub(crate) fn max_waiting(mut self, commands: usize) -> Self {
        self.max_waiting = commands.max(1);
        self
    }

    /// Sets how many calls may be in flight, per connection: [`MAX_IN_FLIGHT`] by default, at least 1.
    #[cfg(test)]
    pub(crate) fn max_in_flight(mut self, calls: usize) -> Self {
        self.max_in_flight = calls.max(1);
        self
    }

    /// Sets the number of connections, in a cluster per node: 1 by default, at least 1. Calls are pipelined, so one is usually
    /// enough. Ignored for clients that the user made.
    pub(crate) fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections.max(1);
        self
    }

    /// Sets the certificates, in PEM, that are trusted over TLS: those of the system by default.
    #[cfg(feature = "tls")]
    pub(crate) fn roots(mut self, pem: &[u8]) -> Self {
        self.roots = Some(pem.to_vec());
        self
    }
}

/// Enough to keep a distant server busy. Also the most charges that can be made for callers that have gone away.
const MAX_IN_FLIGHT: usize = 1_024;
/// Longer waits are not intended, and would overflow an `Instant`.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(50),
            connect_wait: Duration::from_secs(1),
            max_waiting: 10_000,
            pool_size: 1,
            roots: None,
            max_in_flight: MAX_IN_FLIGHT,
            stats: Arc::default(),
        }
    }
}
