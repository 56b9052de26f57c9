//! A connection of HTTP/1.1 to the upstream, for one request after the other.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use super::SendError;
use crate::request::RequestBody;
use crate::upstream::Io;
use crate::upstream::socket::SocketView;

#[derive(Debug)]
pub(crate) struct Http1 {
    sender: SendRequest<RequestBody>,
    driver: Driver,
    socket: SocketView,
}

/// What reads and writes a connection.
enum Driver {
    /// The task of the request, so that a request without a body wakes no other one.
    Request(Box<Connection>),
    /// A task of its own, from the first request with a body on: the upstream may still be sent the rest of it while the client does not
    /// read the response. An upgrade has one as well.
    Task(AbortHandle),
    Ended,
}

type Connection = http1::Connection<TokioIo<Box<dyn Io>>, RequestBody>;

impl Http1 {
    pub(super) async fn handshake(
        io: TokioIo<Box<dyn Io>>,
        socket: SocketView,
        max_header_bytes: usize,
        is_upgrade: bool,
    ) -> io::Result<Self> {
        let mut builder = http1::Builder::new();
        let (sender, connection) =
            builder.max_header_size(max_header_bytes).handshake(io).await.map_err(io::Error::other)?;
        let driver = if is_upgrade {
            spawn(connection.with_upgrades())
        } else {
            Driver::Request(Box::new(connection))
        };
        Ok(Self { sender, driver, socket })
    }

    /// Sends a request, and returns its response once there is the head.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendError> {
        let Self { sender, driver, .. } = self;
        if !request.body().is_end_stream() {
            driver.move_to_task();
        }
        // Without a budget: one that is used up would defer to a waker, and there may be none.
        let mut sent = pin!(tokio::task::unconstrained(sender.try_send_request(request)));
        let response = poll_fn(|cx| {
            if driver.drive(cx) {
                // Nothing else makes the response. Woken by what it drives itself, the task would run once more for each request.
                return sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            sent.as_mut().poll(cx)
        });
        Ok(response.await?)
    }

    /// Reads and writes, unless a task does. Returns whether it did.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        self.driver.drive(cx)
    }

    /// Whether the response has ended, and the next request can be sent.
    pub(super) fn is_ready(&mut self) -> bool {
        // The connection learns here that no more of the response is read.
        self.driver.drive(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Returns once [`is_ready`](Self::is_ready).
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        let Self { sender, driver, .. } = self;
        poll_fn(|cx| {
            driver.drive(cx);
            sender.poll_ready(cx)
        })
        .await
    }

    /// Whether an idle connection can be used: it is open, and the upstream has sent nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.sender.is_ready() && self.socket.is_quiet()
    }

    /// Closes the connection at once.
    pub(super) fn close(self) {
        if let Driver::Task(task) = self.driver {
            task.abort();
        }
    }
}

impl Driver {
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        let Self::Request(connection) = self else { return false };
        if let Poll::Ready(ended) = Pin::new(connection).poll(cx) {
            log(ended);
            *self = Self::Ended;
        }
        true
    }

    fn move_to_task(&mut self) {
        *self = match std::mem::replace(self, Self::Ended) {
            Self::Request(connection) => spawn(*connection),
            other => other,
        };
    }
}

fn spawn(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Driver {
    Driver::Task(tokio::spawn(async move { log(connection.await) }).abort_handle())
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the upstream has ended");
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request(_) => "Request",
            Self::Task(_) => "Task",
            Self::Ended => "Ended",
        })
    }
}
