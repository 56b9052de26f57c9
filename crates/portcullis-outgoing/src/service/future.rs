//! The future of an outgoing request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use portcullis_core::Key;
use portcullis_tower::Charge;
use tokio::sync::oneshot;
use tower_service::Service;

use super::pacing::Pacing;
use crate::error::OutgoingError;
use crate::message::OutgoingResponse;
use crate::message::sealed::Head as _;
use crate::shared::Shared;

pin_project! {
    /// The future of [`Outgoing`](crate::Outgoing): waits, sends the request, and reads the head of the answer.
    ///
    /// While a request waits, it does not keep an instance of the inner service ready; afterwards a clone is made ready.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, a slot in a queue is given up, and other units may stay charged. If it is
    /// dropped once the answer has closed the key, the store is still told.
    ///
    /// # Panics
    ///
    /// If the request has to wait and there is no tokio runtime with a timer.
    pub struct OutgoingFuture<S, R>
    where
        S: Service<R>,
    {
        #[pin]
        state: State<S, R>,
    }
}

pin_project! {
    // A waiting request is boxed, so that the future is small where the store answers at once.
    #[project = StateProjection]
    enum State<S, R>
    where
        S: Service<R>,
    {
        Waiting { waiting: Option<Box<Waiting<S, R>>> },
        Sent { #[pin] future: S::Future, sent: Option<Sent> },
        // The answer has closed the key, and waits until the store knows it.
        Closing { response: Option<S::Response>, done: oneshot::Receiver<()> },
        Failed { error: Option<OutgoingError<S::Error>> },
    }
}

struct Waiting<S, R> {
    pacing: Pacing,
    /// `Some` while the inner service gets ready.
    charge: Option<Charge>,
    inner: S,
    request: R,
}

/// A request whose answer is read.
pub(super) struct Sent {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    /// It holds the permit of a policy that limits requests in flight.
    pub(super) charge: Charge,
}

impl<S: Service<R>, R> OutgoingFuture<S, R> {
    pub(super) fn waiting(pacing: Pacing, inner: S, request: R) -> Self {
        let waiting = Box::new(Waiting { pacing, charge: None, inner, request });
        Self { state: State::Waiting { waiting: Some(waiting) } }
    }

    /// Without `sent` the answer is not read.
    pub(super) fn sent(future: S::Future, sent: Option<Sent>) -> Self {
        Self { state: State::Sent { future, sent } }
    }

    pub(super) fn failed(error: OutgoingError<S::Error>) -> Self {
        Self { state: State::Failed { error: Some(error) } }
    }
}

impl<S, R> Future for OutgoingFuture<S, R>
where
    S: Service<R>,
    S::Response: OutgoingResponse,
{
    type Output = Result<S::Response, OutgoingError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { waiting } => {
                    let request = waiting.as_mut().expect(COMPLETED);
                    ready!(request.poll(cx))?;
                    waiting.take().expect(COMPLETED).send()
                }
                StateProjection::Sent { future, sent } => {
                    let response = ready!(future.poll(cx)).map_err(OutgoingError::Inner)?;
                    let Some(Sent { shared, key, charge }) = sent.take() else {
                        return Poll::Ready(Ok(response));
                    };
                    drop(charge);
                    match shared.observe(key, response.status(), response.headers()) {
                        None => return Poll::Ready(Ok(response)),
                        Some(done) => State::Closing { response: Some(response), done },
                    }
                }
                StateProjection::Closing { response, done } => {
                    // The task may have ended with its runtime.
                    let _ = ready!(Pin::new(done).poll(cx));
                    return Poll::Ready(Ok(response.take().expect(COMPLETED)));
                }
                StateProjection::Failed { error } => return Poll::Ready(Err(error.take().expect(COMPLETED))),
            };
            state.set(next);
        }
    }
}

impl<S: Service<R>, R> Waiting<S, R> {
    /// Waits until the request may be sent and the inner service is ready.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OutgoingError<S::Error>>> {
        if self.charge.is_none() {
            self.charge = Some(ready!(self.pacing.poll(cx))?);
        }
        let answer = ready!(self.inner.poll_ready(cx));
        Poll::Ready(answer.map_err(|error| {
            if let Some(charge) = self.charge.take() {
                self.pacing.shared().0.refund(charge);
            }
            OutgoingError::Inner(error)
        }))
    }

    fn send(self) -> State<S, R> {
        let Self { pacing, charge, mut inner, request } = self;
        let future = inner.call(request);
        let (shared, key) = pacing.shared();
        let sent = charge.map(|charge| Sent { shared: Arc::clone(shared), key, charge });
        State::Sent { future, sent }
    }
}

impl<S: Service<R>, R> fmt::Debug for OutgoingFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingFuture").finish_non_exhaustive()
    }
}

const COMPLETED: &str = "polled after completion";
