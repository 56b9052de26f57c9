//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

use super::Place;

/// Why a [`Server`](super::Server) does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is reachable from other machines, whose clients would not be authenticated.
    #[error(
        "{place} at {addr} is reachable from other machines, and any of them could charge every budget: use a loopback address, \
         require client certificates, or allow it explicitly"
    )]
    Exposed {
        /// The listener.
        place: Place,
        /// Its address.
        addr: SocketAddr,
    },
    /// The address cannot be bound.
    #[error("{place} cannot listen at {addr}: {error}")]
    Bind {
        /// The listener.
        place: Place,
        /// Its address.
        addr: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// A server without a listener would do nothing.
    #[error("the server has no listener")]
    NoListener,
}
