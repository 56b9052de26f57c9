//! The bytes of the bodies that a listener keeps at the same time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};

/// The bodies of all requests of a listener that are not answered: a client could have thousands of them on one connection.
#[derive(Debug)]
pub(super) struct Bodies {
    limit: usize,
    used: AtomicUsize,
}

/// What the body of a request takes of them, until it is answered or dropped.
#[derive(Debug)]
pub(super) struct Held {
    bodies: Arc<Bodies>,
    bytes: AtomicUsize,
    is_refused: AtomicBool,
    is_answered: AtomicBool,
}

impl Bodies {
    /// Room for one body of this size at least.
    pub(super) fn new(body_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit: ALL_BYTES.max(body_bytes), used: AtomicUsize::new(0) })
    }

    pub(super) fn hold(self: &Arc<Self>) -> Arc<Held> {
        let (is_refused, is_answered) = Default::default();
        Arc::new(Held { bodies: Arc::clone(self), bytes: AtomicUsize::new(0), is_refused, is_answered })
    }
}

impl Held {
    /// The body, which fails when there is no room for what it has.
    pub(super) fn body(self: &Arc<Self>, body: Body) -> Body {
        Body::new(Counted { body, held: Arc::clone(self) })
    }

    /// The request has its answer: what is read from now on is that of a stream, whose messages are bounded. Returns whether the body has
    /// failed.
    pub(super) fn answered(&self) -> bool {
        self.is_answered.store(true, Relaxed);
        self.release();
        self.is_refused.load(Relaxed)
    }

    fn takes(&self, bytes: usize) -> bool {
        if self.is_answered.load(Relaxed) {
            return true;
        }
        let used = self.bodies.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
        let is_room = used <= self.bodies.limit;
        if !is_room {
            self.is_refused.store(true, Relaxed);
        }
        is_room
    }

    fn release(&self) {
        self.bodies.used.fetch_sub(self.bytes.swap(0, Relaxed), Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[derive(Debug)]
struct Counted {
    body: Body,
    held: Arc<Held>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len));
        if bytes.is_none_or(|bytes| self.held.takes(bytes)) {
            return Poll::Ready(frame);
        }
        Poll::Ready(Some(Err(axum::Error::new(io::Error::other("there is no room for more bodies")))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The bytes of all bodies at the same time.
const ALL_BYTES: usize = 64 << 20;
