//! Connections of HTTP/2 to the upstream, which requests share.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Duration, Instant};

use super::Lease;
use crate::request::{RequestBody, Stream};
use crate::upstream::Io;

#[derive(Debug)]
pub(super) struct Http2 {
    sender: http2::SendRequest<RequestBody>,
    /// Until it ends: what waits in it for its turn has to end with it.
    connection: Weak<Mutex<Connection>>,
    streams: Stream,
    /// When the last stream began.
    used: Instant,
}

type Connection = http2::Connection<TokioIo<Box<dyn Io>>, RequestBody, TokioExecutor>;

/// What all connections have in common.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) max_header_bytes: usize,
    connection_window: u32,
    /// The streams that the upstream takes on a connection that has not said it yet: as many as on another one.
    max_streams: AtomicUsize,
}

impl Settings {
    pub(super) fn new(max_header_bytes: usize, max_requests: u32) -> Self {
        // A response that its client does not read fills the window of its stream. All of them together leave room in that of the connection.
        let connection_window = max_requests.saturating_mul(STREAM_WINDOW).clamp(STREAM_WINDOW, MAX_WINDOW);
        Self { max_header_bytes, connection_window, max_streams: AtomicUsize::new(RECOMMENDED_STREAMS) }
    }

    pub(super) async fn connect(&self, io: TokioIo<Box<dyn Io>>) -> io::Result<Http2> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(self.connection_window)
            .initial_max_send_streams(self.max_streams.load(Ordering::Relaxed))
            .max_header_list_size(u32::try_from(self.max_header_bytes).unwrap_or(u32::MAX))
            .handshake(io)
            .await
            .map_err(io::Error::other)?;
        let running = Arc::new(Mutex::new(connection));
        let connection = Arc::downgrade(&running);
        tokio::spawn(async move {
            if let Err(error) = poll_fn(|cx| Pin::new(&mut *lock(&running)).poll(cx)).await {
                tracing::debug!(%error, "a connection to the upstream has ended");
            }
        });
        Ok(Http2 { sender, connection, streams: Arc::default(), used: Instant::now() })
    }

    /// A stream of a connection that takes a further one. Connections beyond the first are closed once they were not used for this time.
    pub(super) fn lease(&self, connections: &mut Vec<Http2>, idle_timeout: Duration) -> Option<Lease> {
        connections.retain(|connection| !connection.sender.is_closed());
        let mut is_first = true;
        connections.retain(|connection| {
            std::mem::take(&mut is_first)
                || connection.streams() > 0
                || connection.used.elapsed() < idle_timeout
        });
        connections.iter_mut().find(|connection| self.has_room(connection)).map(Http2::lease)
    }

    /// A connection has room for one request at least, so that there are no more of them than requests.
    fn has_room(&self, connection: &Http2) -> bool {
        let Some(running) = connection.connection.upgrade() else { return false };
        let max_streams = lock(&running).current_max_send_streams();
        self.max_streams.store(max_streams, Ordering::Relaxed);
        connection.streams() < max_streams.max(1)
    }
}

impl Http2 {
    pub(super) fn lease(&mut self) -> Lease {
        self.used = Instant::now();
        Lease::Http2 { sender: self.sender.clone(), stream: Arc::clone(&self.streams) }
    }

    fn streams(&self) -> usize {
        Arc::strong_count(&self.streams) - 1
    }
}

/// A panic in the task of the connection ends its use, so a poisoned lock is safe to use.
fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept of a response that its client does not read.
const STREAM_WINDOW: u32 = 64 * 1_024;
/// Source: RFC 9113, section 6.9.1.
const MAX_WINDOW: u32 = (1 << 31) - 1;
/// Until the upstream says it. Source: RFC 9113, section 6.5.2.
const RECOMMENDED_STREAMS: usize = 100;
/// A connection of HTTP/2 on which nothing comes is asked whether it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
