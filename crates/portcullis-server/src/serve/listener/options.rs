//! The limits of a listener.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use portcullis::BodyRate;
use rustls::ServerConfig;

use crate::places::Client;

/// The limits of a listener. All have a value: there is no listener without limits.
///
/// Timeouts of connections may end up to a quarter of the shortest of them later.
#[derive(Clone)]
pub(crate) struct ListenerOptions {
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) max_connections: u32,
    pub(super) handshake_timeout: Duration,
    pub(super) header_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) stall_timeout: Duration,
    pub(super) drain_timeout: Duration,
    pub(super) peers: Peers,
    pub(super) body_rate: BodyRate,
    max_header_bytes: u32,
    max_streams: u32,
    stream_window: u32,
    connection_window: u32,
    connect_protocol: bool,
}

/// What a peer is, for the places of its connections while they are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client, which has a share of the places. Its connections may be closed.
    Client(Client),
    /// A server that asks for others, and so has no share. Its idle connections may be closed.
    Caller,
    /// A named proxy, whose connections are left alone.
    Proxy,
}

pub(super) type Peers = Arc<dyn Fn(IpAddr) -> Peer + Send + Sync>;

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
            stream_window: 64 * 1_024,
            connection_window: 512 * 1_024,
            connect_protocol: false,
        }
    }
}

impl ListenerOptions {
    /// Serves TLS only, with this configuration. Its ALPN protocols decide whether clients take HTTP/2.
    pub(crate) fn tls(self, config: Arc<ServerConfig>) -> Self {
        Self { tls: Some(config), ..self }
    }

    /// The connections at the same time, those in a TLS handshake included; at least 1.
    pub(crate) fn max_connections(self, connections: u32) -> Self {
        Self { max_connections: connections.max(1), ..self }
    }

    /// The longest TLS handshake.
    pub(crate) fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { handshake_timeout: timeout, ..self }
    }

    /// The time in which the head of a request of HTTP/1.1 arrives, and in which a new connection sends its first bytes.
    pub(crate) fn header_timeout(self, timeout: Duration) -> Self {
        Self { header_timeout: timeout, ..self }
    }

    /// How long a connection without a request in progress stays open.
    pub(crate) fn idle_timeout(self, timeout: Duration) -> Self {
        Self { idle_timeout: timeout, ..self }
    }

    /// How long a connection stays open while its client takes nothing of what there is for it. Not for upgraded connections.
    pub(crate) fn stall_timeout(self, timeout: Duration) -> Self {
        Self { stall_timeout: timeout, ..self }
    }

    /// How long requests in progress may take at shutdown.
    pub(crate) fn drain_timeout(self, timeout: Duration) -> Self {
        Self { drain_timeout: timeout, ..self }
    }

    /// What the peers are; without it each address is a client.
    pub(crate) fn peers(self, peers: impl Fn(IpAddr) -> Peer + Send + Sync + 'static) -> Self {
        Self { peers: Arc::new(peers), ..self }
    }

    /// The smallest rate of the bodies of requests.
    pub(crate) fn body_rate(self, rate: BodyRate) -> Self {
        Self { body_rate: rate, ..self }
    }

    /// The bytes of the head of a request: at least 8 192 with HTTP/1.1, whose line and fields both count.
    pub(crate) fn max_header_bytes(self, bytes: u32) -> Self {
        Self { max_header_bytes: bytes.max(MIN_HEADER_BYTES), ..self }
    }

    /// The requests at the same time on a connection of HTTP/2.
    pub(crate) fn max_streams(self, streams: u32) -> Self {
        Self { max_streams: streams.max(1), ..self }
    }

    /// The bytes of a request that a stream, and all streams of a connection, may send before they are read. HTTP/2 only.
    pub(crate) fn windows(self, stream: u32, connection: u32) -> Self {
        Self { stream_window: stream, connection_window: connection, ..self }
    }

    /// Accepts extended CONNECT (RFC 8441), for web sockets over HTTP/2.
    pub(crate) fn connect_protocol(self) -> Self {
        Self { connect_protocol: true, ..self }
    }

    pub(super) fn protocol(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        let header_bytes = usize::try_from(self.max_header_bytes).unwrap_or(usize::MAX);
        // The watchdog has the timeout of heads: hyper's would also close connections that are kept alive.
        builder.http1().header_read_timeout(None).max_buf_size(header_bytes).max_headers(MAX_FIELDS);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new());
        http2.max_header_list_size(self.max_header_bytes).max_concurrent_streams(self.max_streams);
        http2.initial_stream_window_size(self.stream_window);
        http2.initial_connection_window_size(self.connection_window);
        http2.max_pending_accept_reset_streams(MAX_RESET_STREAMS);
        http2.max_local_error_reset_streams(MAX_RESETS_OF_OURS);
        http2.keep_alive_interval(KEEP_ALIVE_INTERVAL).keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        if self.connect_protocol {
            http2.enable_connect_protocol();
        }
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
