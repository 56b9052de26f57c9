//! The body of a response of the upstream.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
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

/// A body that is dropped, with its connection, once there was no progress for too long: also if the client does not read, and so the
/// body is not polled.
#[derive(Debug)]
pub(super) struct ResponseStream {
    shared: Arc<Shared>,
    watchdog: Option<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    activity: Arc<Activity>,
}

#[derive(Debug)]
enum State {
    Open { body: Incoming, held: Held, waker: Option<Waker> },
    Ended,
    TimedOut,
}

impl ResponseStream {
    pub(super) fn new(body: Incoming, held: Held, activity: Arc<Activity>, idle: Duration) -> Self {
        if body.is_end_stream() {
            held.release();
            let shared = Shared { state: Mutex::new(State::Ended), activity };
            return Self { shared: Arc::new(shared), watchdog: None };
        }
        activity.progress();
        let state = Mutex::new(State::Open { body, held, waker: None });
        let shared = Arc::new(Shared { state, activity });
        let watched = Arc::clone(&shared);
        let watchdog = tokio::spawn(async move {
            watched.activity.idle_for(idle).await;
            watched.time_out();
        });
        Self { shared, watchdog: Some(watchdog.abort_handle()) }
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

impl Body for ResponseStream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let (body, waker) = match &mut *state {
            State::Open { body, waker, .. } => (body, waker),
            State::Ended => return Poll::Ready(None),
            State::TimedOut => {
                *state = State::Ended;
                return Poll::Ready(Some(Err("no progress in time".into())));
            }
        };
        let mut polled = Pin::new(&mut *body).poll_frame(cx);
        let has_ended = body.is_end_stream();
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
            if let State::Open { held, .. } = former
                && is_whole
            {
                held.release();
            }
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        match &*self.shared.lock() {
            State::Open { body, .. } => body.is_end_stream(),
            State::Ended => true,
            State::TimedOut => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.shared.lock() {
            State::Open { body, .. } => body.size_hint(),
            State::Ended | State::TimedOut => SizeHint::default(),
        }
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.abort();
        }
        // The watchdog may still have its share for a moment, and the body has to end now.
        *self.shared.lock() = State::Ended;
    }
}
