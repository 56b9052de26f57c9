//! What clients can use of a server.

use std::time::Duration;

use portcullis::BodyRate;

use super::Place;
use crate::listener::ListenerOptions;

/// What clients can use of a [`Server`](super::Server), for each of its listeners. Every limit has a value.
///
/// ```
/// use std::time::Duration;
///
/// use portcullis_server::Limits;
///
/// let limits = Limits::default().max_connections(10_000).drain_timeout(Duration::from_secs(10));
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    max_connections: u32,
    max_streams: u32,
    max_header_bytes: u32,
    max_body_bytes: usize,
    body_rate: BodyRate,
    handshake_timeout: Duration,
    header_timeout: Duration,
    idle_timeout: Duration,
    request_timeout: Duration,
    drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            max_streams: 1_024,
            max_header_bytes: 32 * 1_024,
            max_body_bytes: 1 << 20,
            body_rate: BodyRate::default(),
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            request_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// Sets the connections at the same time, 1 024 by default and 1 at least. More wait in the queue of the operating system. The listener
    /// of the status has at most 64.
    #[must_use]
    pub fn max_connections(self, connections: u32) -> Self {
        Self { max_connections: connections.max(1), ..self }
    }

    /// Sets the requests at the same time on one connection of HTTP/2, 1 024 by default and 1 at least. A client waits with more.
    #[must_use]
    pub fn max_streams(self, streams: u32) -> Self {
        Self { max_streams: streams.max(1), ..self }
    }

    /// Sets the bytes of the head of a request, 32 KiB by default and 8 KiB at least. A larger one is 431.
    #[must_use]
    pub fn max_header_bytes(self, bytes: u32) -> Self {
        Self { max_header_bytes: bytes, ..self }
    }

    /// Sets the bytes of the body of a request over HTTP, 1 MiB by default. A larger one is 413. The services of gRPC have bounds of their own.
    #[must_use]
    pub fn max_body_bytes(self, bytes: usize) -> Self {
        Self { max_body_bytes: bytes, ..self }
    }

    /// Sets the smallest rate at which clients send the bodies of their requests; 1 920 bytes in 30 s by default. A slower body
    /// is an error.
    #[must_use]
    pub fn body_rate(self, rate: BodyRate) -> Self {
        Self { body_rate: rate, ..self }
    }

    /// Sets the longest TLS handshake, 10 s by default.
    #[must_use]
    pub fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { handshake_timeout: timeout, ..self }
    }

    /// Sets the time in which a new connection, and each head of a request of HTTP/1.1, arrives; 10 s by default.
    #[must_use]
    pub fn header_timeout(self, timeout: Duration) -> Self {
        Self { header_timeout: timeout, ..self }
    }

    /// Sets how long a connection stays open without a request, and while its client takes less than 1 920 bytes of what there is for it; 300 s
    /// by default.
    #[must_use]
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        Self { idle_timeout: timeout, ..self }
    }

    /// Sets the time from the head of a request to that of its response, its body included, 30 s by default. After it the response is
    /// 503, in gRPC `DEADLINE_EXCEEDED`. A policy that lets requests wait for longer is cut short.
    #[must_use]
    pub fn request_timeout(self, timeout: Duration) -> Self {
        Self { request_timeout: timeout, ..self }
    }

    /// Sets how long requests in progress may take at shutdown, and settlements after them; 20 s each by default.
    #[must_use]
    pub fn drain_timeout(self, timeout: Duration) -> Self {
        Self { drain_timeout: timeout, ..self }
    }

    pub(super) fn listener(&self, place: Place) -> ListenerOptions {
        let most = if place == Place::Status { STATUS_CONNECTIONS } else { u32::MAX };
        ListenerOptions {
            max_connections: self.max_connections.min(most),
            max_streams: self.max_streams,
            max_header_bytes: self.max_header_bytes,
            body_rate: self.body_rate,
            handshake_timeout: self.handshake_timeout,
            header_timeout: self.header_timeout,
            idle_timeout: self.idle_timeout,
            stall_timeout: self.idle_timeout,
            drain_timeout: self.drain_timeout,
            ..ListenerOptions::default()
        }
    }

    pub(super) fn body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    pub(super) fn per_request(&self) -> Duration {
        self.request_timeout
    }

    pub(super) fn drain(&self) -> Duration {
        self.drain_timeout
    }
}

/// As many as probes need.
const STATUS_CONNECTIONS: u32 = 64;
