//! What a user may set on a connection.

use std::time::Duration;

/// How a [`Connection`](super::Connection) behaves; `Options::default()` suits most services.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(super) deadline: Duration,
    pub(super) connect_wait: Duration,
    pub(super) max_buffered: usize,
    pub(super) pool_size: usize,
    pub(super) roots: Option<Vec<u8>>,
    pub(super) window: usize,
}

impl Options {
    /// Sets how long one call may take, a reload of the script and a retry included: 50 ms by default,
    /// at least 1 ms.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.clamp(Duration::from_millis(1), LONGEST_WAIT);
        self
    }

    /// Sets how long opening waits for the server before it goes on without: 1 s by default.
    pub(crate) fn connect_wait(mut self, wait: Duration) -> Self {
        self.connect_wait = wait.min(LONGEST_WAIT);
        self
    }

    /// Sets how many calls may wait until fewer than [`WINDOW`] are in flight, per connection, before more are refused as
    /// overloaded: 10 000 by default, at least 1. One key has at most 1/16 of them.
    pub(crate) fn max_buffered(mut self, commands: usize) -> Self {
        self.max_buffered = commands.max(1);
        self
    }

    /// Sets how many calls may be in flight, per connection: [`WINDOW`] by default, at least 1.
    #[cfg(test)]
    pub(crate) fn window(mut self, calls: usize) -> Self {
        self.window = calls.max(1);
        self
    }

    /// Sets the number of connections, in a cluster to each node: 1 by default, at least 1. Calls are pipelined, so one is usually
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

/// Enough to keep a server busy over a long way, and what may be charged at most for callers who have gone.
const WINDOW: usize = 1_024;
/// Beyond this no wait is meant, and instants would overflow.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(50),
            connect_wait: Duration::from_secs(1),
            max_buffered: 10_000,
            pool_size: 1,
            roots: None,
            window: WINDOW,
        }
    }
}
