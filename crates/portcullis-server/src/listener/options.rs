//! The limits of a listener.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use portcullis::BodyRate;

use super::places::Client;
use crate::Tls;

/// The limits of a listener. All have a value: there is no listener without limits.
///
/// Timeouts of connections may end up to a quarter of the shortest of them later.
#[derive(Clone)]
pub struct ListenerOptions {
    /// Serves TLS only, with this certificate.
    pub tls: Option<Tls>,
    /// The connections at the same time, those in a TLS handshake included; at least 1.
    pub max_connections: u32,
    /// The longest TLS handshake.
    pub handshake_timeout: Duration,
    /// The time in which the head of a request of HTTP/1.1 arrives, and in which a new connection sends its first bytes.
    pub header_timeout: Duration,
    /// How long a connection without a request in progress stays open.
    pub idle_timeout: Duration,
    /// How long a connection stays open while its client takes nothing of what there is for it. Not for upgraded connections.
    pub stall_timeout: Duration,
    /// How long requests in progress may take at shutdown.
    pub drain_timeout: Duration,
    /// What the peers are; by default each address is a client.
    pub peers: Peers,
    /// The smallest rate of the bodies of requests.
    pub body_rate: BodyRate,
    /// The bytes of the head of a request: at least 8 192 with HTTP/1.1, whose line and fields both count.
    pub max_header_bytes: u32,
    /// The requests at the same time on a connection of HTTP/2; at least 1.
    pub max_streams: u32,
}

/// What a peer is, for the places of its connections while they are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client, which has a share of the places. Its connections may be closed.
    Client(Client),
    /// A server that asks for others, and so has no share. Its idle connections may be closed.
    Caller,
    /// A named proxy, whose connections are left alone.
    Proxy,
}

/// What each address is.
pub type Peers = Arc<dyn Fn(IpAddr) -> Peer + Send + Sync>;

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            tls: None,
            max_connections: 1_024,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(300),
            drain_timeout: Duration::from_secs(30),
            peers: Arc::new(|peer| Peer::Client(Client::at(peer))),
            body_rate: BodyRate::default(),
            max_header_bytes: 32 * 1_024,
            max_streams: 256,
        }
    }
}

impl ListenerOptions {
    pub(super) fn protocol(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        let max_header_bytes = self.max_header_bytes.max(MIN_HEADER_BYTES);
        let header_bytes = usize::try_from(max_header_bytes).unwrap_or(usize::MAX);
        // The watchdog has the timeout of heads: hyper's would also close connections that are kept alive.
        builder.http1().header_read_timeout(None).max_buf_size(header_bytes).max_headers(MAX_FIELDS);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new());
        http2.max_header_list_size(max_header_bytes).max_concurrent_streams(self.max_streams.max(1));
        http2.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        http2.max_pending_accept_reset_streams(MAX_RESET_STREAMS);
        http2.max_local_error_reset_streams(MAX_RESETS_OF_OURS);
        http2.keep_alive_interval(KEEP_ALIVE_INTERVAL).keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        builder
    }
}

impl fmt::Debug for ListenerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerOptions")
            .field("tls", &self.tls.is_some())
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

/// The smallest buffer of hyper.
const MIN_HEADER_BYTES: u32 = 8 * 1_024;

/// The bytes of a request that a stream, and all streams of a connection, may send before they are read. HTTP/2 only.
const STREAM_WINDOW: u32 = 64 * 1_024;
const CONNECTION_WINDOW: u32 = 512 * 1_024;

/// The header fields of a request of HTTP/1.1. Those of HTTP/2 are bounded by their size.
const MAX_FIELDS: usize = 100;

/// The streams that a peer has reset before they were accepted, beyond which its connection is closed.
const MAX_RESET_STREAMS: usize = 20;

/// The streams of a connection that were reset here: those whose bodies are longer than what is discarded of them, and errors of the
/// peer. Beyond them the connection is closed.
const MAX_RESETS_OF_OURS: usize = 16_384;

/// How often a peer of HTTP/2 is asked whether it is there, and how long it may take to answer.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
