//! Connections to the upstream: of HTTP/2 as few as have streams for all requests, or one of HTTP/1.1 for each, kept for the next.
//!
//! Code of our own, because hyper-util's client, at 1.00 times the requests per second, answers a request by bytes that its idle connection got
//! before, and lets requests wait for a full connection of HTTP/2. It also keeps connections for each `:authority`, which the client has
//! written. Its `pool::cache` keeps all connections that are idle, without a bound.

mod http1;
mod http2;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2::SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};

use super::{Connected, Upstream};
use crate::request::{RequestBody, RequestPlace, Stream};
use http1::Http1;
use http2::Http2;

#[derive(Debug)]
pub(crate) struct Pool {
    upstream: Upstream,
    max_idle: usize,
    idle_timeout: Duration,
    /// In the order of `since`.
    idle: Mutex<VecDeque<Idle>>,
    settings: http2::Settings,
    shared: Mutex<Vec<Http2>>,
    /// Held while one is opened that may be shared, so that there are no more than are needed.
    opening: tokio::sync::Mutex<()>,
    /// Whether the upstream has selected HTTP/1.1.
    is_http1: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    since: Instant,
}

/// A connection for one request.
pub(crate) enum Lease {
    Http1 { connection: Http1, is_reused: bool },
    Http2 { sender: SendRequest<RequestBody>, stream: Stream },
}

/// A connection of HTTP/1.1 that can be used again once its response has ended.
pub(crate) struct Reusable {
    connection: Http1,
    /// Whether the upstream may still send a body that is not one.
    is_doubtful: bool,
    pool: Arc<Pool>,
}

/// Why there is no response.
pub(crate) enum SendError {
    /// Nothing was sent: the connection had ended before. The request may be sent on another one.
    NotSent(Box<Request<RequestBody>>),
    /// It may have been sent.
    Failed(hyper::Error),
}

impl From<TrySendError<Request<RequestBody>>> for SendError {
    fn from(mut error: TrySendError<Request<RequestBody>>) -> Self {
        match error.take_message() {
            Some(request) => Self::NotSent(Box::new(request)),
            None => Self::Failed(error.into_error()),
        }
    }
}

impl Pool {
    pub(crate) fn new(
        upstream: Upstream,
        max_idle: usize,
        idle_timeout: Duration,
        max_header_bytes: usize,
        max_requests: u32,
    ) -> Self {
        Self {
            upstream,
            max_idle,
            idle_timeout,
            idle: Mutex::default(),
            settings: http2::Settings::new(max_header_bytes, max_requests),
            shared: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            is_http1: AtomicBool::new(false),
        }
    }

    /// Returns a connection: an open one, unless `fresh` or for an upgrade.
    ///
    /// # Errors
    ///
    /// If none can be opened.
    pub(crate) async fn lease(&self, is_upgrade: bool, fresh: bool) -> io::Result<Lease> {
        if is_upgrade {
            return self.open(true).await;
        }
        if self.upstream.may_be_http2() {
            if let Some(lease) = self.lease_stream() {
                return Ok(lease);
            }
            if !self.is_http1.load(Ordering::Relaxed) {
                let _opening = self.opening.lock().await;
                if let Some(lease) = self.lease_stream() {
                    return Ok(lease);
                }
                if !self.is_http1.load(Ordering::Relaxed) {
                    return self.open(false).await;
                }
            }
        }
        if !fresh && let Some(connection) = self.take_idle() {
            return Ok(Lease::Http1 { connection, is_reused: true });
        }
        self.open(false).await
    }

    fn lease_stream(&self) -> Option<Lease> {
        self.settings.lease(&mut self.shared(), self.idle_timeout)
    }

    async fn open(&self, is_upgrade: bool) -> io::Result<Lease> {
        let Connected { is_http2, io, socket } = self.upstream.connect(is_upgrade).await?;
        let io = TokioIo::new(io);
        if !is_upgrade {
            self.is_http1.store(!is_http2, Ordering::Relaxed);
        }
        if is_http2 {
            let mut connection = self.settings.connect(io).await?;
            let lease = connection.lease();
            self.shared().push(connection);
            return Ok(lease);
        }
        let connection = Http1::handshake(io, socket, self.settings.max_header_bytes, is_upgrade).await?;
        Ok(Lease::Http1 { connection, is_reused: false })
    }

    fn take_idle(&self) -> Option<Http1> {
        let mut idle = self.idle();
        self.sweep(&mut idle, Instant::now());
        while let Some(Idle { connection, .. }) = idle.pop_back() {
            if connection.is_quiet() {
                return Some(connection);
            }
            tracing::debug!("the upstream has closed a kept connection, or sent what is of no response");
            connection.close();
        }
        None
    }

    fn put(&self, connection: Http1) {
        if self.upstream.may_be_http2() && !self.is_http1.load(Ordering::Relaxed) {
            // It was for an upgrade that was refused, and no other request takes it.
            return connection.close();
        }
        let (mut idle, since) = (self.idle(), Instant::now());
        self.sweep(&mut idle, since);
        if idle.len() >= self.max_idle && idle.front().is_some_and(|oldest| !oldest.connection.is_quiet()) {
            idle.pop_front();
        }
        if idle.len() < self.max_idle {
            idle.push_back(Idle { connection, since });
        }
    }

    fn sweep(&self, idle: &mut VecDeque<Idle>, now: Instant) {
        while idle.front().is_some_and(|oldest| now - oldest.since >= self.idle_timeout) {
            idle.pop_front();
        }
    }

    /// The list is consistent between any two statements, so a poisoned lock is safe to use.
    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`idle`](Self::idle).
    fn shared(&self) -> MutexGuard<'_, Vec<Http2>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2 { .. })
    }

    /// Whether the connection was there before.
    pub(crate) fn is_reused(&self) -> bool {
        matches!(self, Self::Http2 { .. } | Self::Http1 { is_reused: true, .. })
    }

    /// Sends a request in its place, and returns the response with what is kept of the connection.
    pub(crate) async fn send(
        self,
        request: Request<RequestBody>,
        pool: &Arc<Pool>,
        place: &RequestPlace,
    ) -> Result<(Response<Incoming>, Option<Reusable>), SendError> {
        match self {
            Self::Http1 { mut connection, .. } => {
                let is_head = request.method() == Method::HEAD;
                let response = connection.send(request).await?;
                let is_doubtful = is_head || may_have_wrong_body(response.status(), response.headers());
                Ok((response, Some(Reusable { connection, is_doubtful, pool: Arc::clone(pool) })))
            }
            Self::Http2 { mut sender, stream } => {
                place.keep(stream);
                Ok((sender.try_send_request(request).await?, None))
            }
        }
    }
}

impl Reusable {
    /// Reads and writes, unless a task of the connection does. Returns whether it did.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        self.connection.drive(cx)
    }

    /// Gives the connection to the next request once it is ready. The upstream may have responded before it had the whole request;
    /// then the client has a moment for the rest, and the connection ends with it.
    pub(crate) fn release(self) {
        let Self { mut connection, is_doubtful, pool } = self;
        if is_doubtful {
            connection.close();
            return;
        }
        if connection.is_ready() {
            pool.put(connection);
            return;
        }
        if connection.is_closed() {
            return;
        }
        tokio::spawn(async move {
            if matches!(timeout(READY_WITHIN, connection.ready()).await, Ok(Ok(()))) {
                pool.put(connection);
            } else {
                connection.close();
            }
        });
    }
}

/// Whether a response that has no body by its status announces one. An upstream that then sends it may do so after the next request, and
/// nothing would tell it from a response. To `HEAD` no response shows whether that happens.
fn may_have_wrong_body(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_length = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        && (has_length || headers.contains_key(header::TRANSFER_ENCODING))
}

impl fmt::Debug for Reusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reusable").finish_non_exhaustive()
    }
}

/// A connection whose request is not read to its end is not worth waiting for.
const READY_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
