//! Options of a connection.

use std::sync::Arc;
use std::time::Duration;

use crate::stats::StoreStats;

/// How a [`Connection`](crate::connection::Connection) behaves: what [`RedisStoreBuilder`](crate::RedisStoreBuilder) describes.
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
    pub(crate) fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: deadline.clamp(Duration::from_millis(1), LONGEST_WAIT), ..self }
    }

    pub(crate) fn connect_wait(self, wait: Duration) -> Self {
        Self { connect_wait: wait.min(LONGEST_WAIT), ..self }
    }

    pub(crate) fn max_waiting(self, commands: usize) -> Self {
        Self { max_waiting: commands.max(1), ..self }
    }

    #[cfg(test)]
    pub(crate) fn max_in_flight(self, calls: usize) -> Self {
        Self { max_in_flight: calls.max(1), ..self }
    }

    pub(crate) fn pool_size(self, connections: usize) -> Self {
        Self { pool_size: connections.max(1), ..self }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn roots(self, pem: &[u8]) -> Self {
        Self { roots: Some(pem.to_vec()), ..self }
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
