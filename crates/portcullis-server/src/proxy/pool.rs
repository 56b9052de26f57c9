//! Connections to the upstream: one of HTTP/2 for all requests, or one of HTTP/1.1 for each, kept for the next.
//!
//! The client of hyper-util keys its connections by the authority of the URI, which is `:authority` of HTTP/2 as well: with the host
//! that the client has written it would keep connections for each of them.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::request_body::RequestBody;
use super::socket::SocketView;
use super::upstream::{Connected, Upstream};

#[derive(Debug)]
pub(super) struct Pool {
    upstream: Upstream,
    max_idle: usize,
    idle_timeout: Duration,
    max_header_bytes: usize,
    idle: Mutex<Vec<Idle>>,
    /// Held while one is opened, so that there is one.
    shared: tokio::sync::Mutex<Shared>,
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    since: Instant,
}

#[derive(Debug)]
enum Shared {
    /// Not known yet, or none.
    None,
    Http2(http2::SendRequest<RequestBody>),
    /// The upstream has selected HTTP/1.1.
    Http1,
}

/// A connection of HTTP/1.1, and the task that reads and writes it.
#[derive(Debug)]
pub(super) struct Http1 {
    sender: http1::SendRequest<RequestBody>,
    task: AbortHandle,
    socket: SocketView,
}

/// A connection for one request.
pub(super) enum Lease {
    Http1 { connection: Http1, is_reused: bool },
    Http2(http2::SendRequest<RequestBody>),
}

/// A connection of HTTP/1.1 that can be used again once its response has ended.
pub(super) struct Reusable {
    connection: Http1,
    /// Whether the upstream may still send a body that is not one.
    is_doubtful: bool,
    pool: Arc<Pool>,
}

/// Why there is no response.
pub(super) enum SendError {
    /// Nothing was sent: the connection had ended before. The request may be sent on another one.
    NotSent(Box<Request<RequestBody>>),
    /// It may have been sent.
    Failed(hyper::Error),
}

impl Pool {
    pub(super) fn new(
        upstream: Upstream,
        max_idle: usize,
        idle_timeout: Duration,
        max_header_bytes: usize,
    ) -> Self {
        let shared = tokio::sync::Mutex::new(Shared::None);
        Self { upstream, max_idle, idle_timeout, max_header_bytes, idle: Mutex::default(), shared }
    }

    /// Returns a connection: an open one, unless `fresh` or for an upgrade.
    ///
    /// # Errors
    ///
    /// If none can be opened.
    pub(super) async fn lease(&self, is_upgrade: bool, fresh: bool) -> io::Result<Lease> {
        if is_upgrade {
            return self.open(true).await;
        }
        if self.upstream.may_be_http2() {
            let mut shared = self.shared.lock().await;
            match &*shared {
                Shared::Http2(sender) if !sender.is_closed() => return Ok(Lease::Http2(sender.clone())),
                Shared::Http1 => {}
                Shared::None | Shared::Http2(_) => {
                    *shared = Shared::None;
                    let lease = self.open(false).await?;
                    *shared = match &lease {
                        Lease::Http2(sender) => Shared::Http2(sender.clone()),
                        Lease::Http1 { .. } => Shared::Http1,
                    };
                    return Ok(lease);
                }
            }
        }
        if !fresh && let Some(connection) = self.take_idle() {
            return Ok(Lease::Http1 { connection, is_reused: true });
        }
        let lease = self.open(false).await?;
        if let Lease::Http2(sender) = &lease {
            *self.shared.lock().await = Shared::Http2(sender.clone());
        }
        Ok(lease)
    }

    async fn open(&self, is_upgrade: bool) -> io::Result<Lease> {
        let Connected { is_http2, io, socket } = self.upstream.connect(is_upgrade).await?;
        let io = TokioIo::new(io);
        if is_http2 {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(KEEP_ALIVE)
                .max_header_list_size(u32::try_from(self.max_header_bytes).unwrap_or(u32::MAX))
                .handshake(io)
                .await
                .map_err(io::Error::other)?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to the upstream has ended");
                }
            });
            return Ok(Lease::Http2(sender));
        }
        let (sender, connection) = http1::Builder::new()
            .max_header_size(self.max_header_bytes)
            .handshake(io)
            .await
            .map_err(io::Error::other)?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to the upstream has ended");
            }
        });
        let connection = Http1 { sender, task: task.abort_handle(), socket };
        Ok(Lease::Http1 { connection, is_reused: false })
    }

    fn take_idle(&self) -> Option<Http1> {
        let mut idle = self.idle();
        self.sweep(&mut idle);
        while let Some(Idle { connection, .. }) = idle.pop() {
            if connection.socket.is_quiet() {
                return Some(connection);
            }
            tracing::debug!("the upstream has closed a kept connection, or sent what is of no response");
            connection.task.abort();
        }
        None
    }

    fn put(&self, connection: Http1) {
        let mut idle = self.idle();
        self.sweep(&mut idle);
        if idle.len() < self.max_idle {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }

    fn sweep(&self, idle: &mut Vec<Idle>) {
        idle.retain(|idle| idle.connection.sender.is_ready() && idle.since.elapsed() < self.idle_timeout);
    }

    /// The list is consistent between any two statements, so a poisoned lock is safe to use.
    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Whether the connection was there before.
    pub(super) fn is_reused(&self) -> bool {
        matches!(self, Self::Http2(_) | Self::Http1 { is_reused: true, .. })
    }

    /// Sends a request, and returns the response with what is kept of the connection.
    pub(super) async fn send(
        self,
        request: Request<RequestBody>,
        pool: &Arc<Pool>,
    ) -> Result<(Response<Incoming>, Option<Reusable>), SendError> {
        match self {
            Self::Http1 { mut connection, .. } => {
                let is_head = request.method() == Method::HEAD;
                let response = connection.sender.try_send_request(request).await.map_err(|mut error| {
                    match error.take_message() {
                        Some(request) => SendError::NotSent(Box::new(request)),
                        None => SendError::Failed(error.into_error()),
                    }
                })?;
                let is_doubtful = is_head || may_have_wrong_body(response.status(), response.headers());
                Ok((response, Some(Reusable { connection, is_doubtful, pool: Arc::clone(pool) })))
            }
            Self::Http2(mut sender) => {
                let response = sender.try_send_request(request).await.map_err(|mut error| {
                    match error.take_message() {
                        Some(request) => SendError::NotSent(Box::new(request)),
                        None => SendError::Failed(error.into_error()),
                    }
                })?;
                Ok((response, None))
            }
        }
    }
}

impl Reusable {
    /// Gives the connection to the next request once it is ready. The upstream may have responded before it had the whole request;
    /// then the client has a moment for the rest, and the connection ends with it.
    pub(super) fn release(self) {
        let Self { mut connection, is_doubtful, pool } = self;
        if is_doubtful {
            connection.task.abort();
            return;
        }
        if connection.sender.is_ready() {
            pool.put(connection);
            return;
        }
        tokio::spawn(async move {
            if matches!(timeout(READY_WITHIN, connection.sender.ready()).await, Ok(Ok(()))) {
                pool.put(connection);
            } else {
                connection.task.abort();
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

/// A connection of HTTP/2 on which nothing comes is asked whether it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// A connection whose request is not read to its end is not worth waiting for.
const READY_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
