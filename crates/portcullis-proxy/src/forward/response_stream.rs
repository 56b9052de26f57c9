//! The body of a response of the upstream.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::task::AbortHandle;

use crate::headers::hop_by_hop;
use crate::request::{Activity, BodyError, Place};
use crate::upstream::Reusable;

/// What a request has until its response ends.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) _place: Place,
    /// The connection, if it can be used again.
    pub(super) connection: Option<Reusable>,
}

/// Returns a body to the client. One that came with the head of its response needs nothing more of the upstream.
pub(super) fn stream(
    body: Incoming,
    held: Held,
    activity: Arc<Activity>,
    idle: Duration,
) -> axum::body::Body {
    if body.is_end_stream() {
        held.release();
        return axum::body::Body::empty();
    }
    let mut upstream = FromUpstream { body, first: None, failed: None, may_break_off: false, held };
    match upstream.whole() {
        Some(whole) => {
            upstream.held.release();
            axum::body::Body::from(whole)
        }
        None => axum::body::Body::new(ResponseStream::new(upstream, activity, idle)),
    }
}

/// A body, and what it needs to be read.
#[derive(Debug)]
struct FromUpstream {
    body: Incoming,
    /// What was read of it already.
    first: Option<Bytes>,
    /// Why the body breaks off.
    failed: Option<hyper::Error>,
    /// Whether what comes before that can have been written.
    may_break_off: bool,
    held: Held,
}

/// A body that is dropped, with its connection, once there was no progress for too long: also if the client does not read, and so the
/// body is not polled.
#[derive(Debug)]
struct ResponseStream {
    shared: Arc<Shared>,
    watchdog: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    activity: Arc<Activity>,
}

#[derive(Debug)]
enum State {
    Open { upstream: FromUpstream, waker: Option<Waker> },
    Ended,
    TimedOut,
}

impl FromUpstream {
    /// Takes the body, if its length is known and all of it is there.
    fn whole(&mut self) -> Option<Bytes> {
        if self.held.connection.is_none() || self.body.size_hint().exact().is_none() {
            return None;
        }
        match self.poll_body(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => self.first = frame.into_data().ok(),
            Poll::Ready(Some(Err(error))) => self.failed = Some(error),
            _ => {}
        }
        if self.body.is_end_stream() && self.failed.is_none() { self.first.take() } else { None }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.failed.is_none() {
            match self.poll_body(cx) {
                Poll::Ready(Some(Err(error))) => self.failed = Some(error),
                polled => return polled,
            }
        }
        if !mem::replace(&mut self.may_break_off, true) {
            // An error at once would close the connection to the client before the head, or the bytes before it, are written.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.failed.take().map(Err))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let mut without_waker = Context::from_waker(Waker::noop());
        if let Some(connection) = &mut self.held.connection {
            // What is there already comes first, so that the connection has room for what it reads next.
            let polled = Pin::new(&mut self.body).poll_frame(&mut without_waker);
            if polled.is_ready() {
                return polled;
            }
            if connection.drive(cx) {
                // Nothing else adds to the body.
                return Pin::new(&mut self.body).poll_frame(&mut without_waker);
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.failed.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, first) = (self.body.size_hint(), self.first.as_ref().map_or(0, Bytes::len) as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + first);
        }
        hint.set_lower(hint.lower() + first);
        hint
    }
}

impl ResponseStream {
    fn new(upstream: FromUpstream, activity: Arc<Activity>, idle: Duration) -> Self {
        activity.progress();
        let state = Mutex::new(State::Open { upstream, waker: None });
        let shared = Arc::new(Shared { state, activity });
        let watched = Arc::clone(&shared);
        let watchdog = tokio::spawn(async move {
            watched.activity.idle_for(idle).await;
            watched.time_out();
        });
        Self { shared, watchdog: watchdog.abort_handle() }
    }
}

impl Shared {
    /// The state is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time_out(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Open { .. }) {
            return;
        }
        let former = std::mem::replace(&mut *state, State::TimedOut);
        drop(state);
        if let State::Open { waker: Some(waker), .. } = former {
            waker.wake();
        }
    }
}

impl Held {
    /// Makes the connection available to other requests.
    fn release(self) {
        if let Some(connection) = self.connection {
            connection.release();
        }
    }
}

impl http_body::Body for ResponseStream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let (upstream, waker) = match &mut *state {
            State::Open { upstream, waker } => (upstream, waker),
            State::Ended => return Poll::Ready(None),
            State::TimedOut => {
                *state = State::Ended;
                return Poll::Ready(Some(Err("no progress in time".into())));
            }
        };
        let mut polled = upstream.poll_frame(cx);
        let has_ended = upstream.is_end_stream();
        match &mut polled {
            Poll::Pending => {
                if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    hop_by_hop::clean_trailers(trailers);
                }
                shared.activity.progress();
            }
            Poll::Ready(_) => {}
        }
        let is_whole = has_ended || matches!(polled, Poll::Ready(None));
        if is_whole || matches!(polled, Poll::Ready(Some(Err(_)))) {
            let former = std::mem::replace(&mut *state, State::Ended);
            drop(state);
            if let State::Open { upstream, .. } = former
                && is_whole
            {
                upstream.held.release();
            }
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        match &*self.shared.lock() {
            State::Open { upstream, .. } => upstream.is_end_stream(),
            State::Ended => true,
            State::TimedOut => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.shared.lock() {
            State::Open { upstream, .. } => upstream.size_hint(),
            State::Ended | State::TimedOut => SizeHint::default(),
        }
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.watchdog.abort();
        // The watchdog may still have its share for a moment, and the body has to end now.
        *self.shared.lock() = State::Ended;
    }
}
