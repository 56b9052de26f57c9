//! The future of the service.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use crate::ResponseBody;
use crate::admission::{Admission, Admitted, Verdict};
use crate::answer::PendingHeaders;

pin_project! {
    /// The response future of [`RateLimit`](crate::RateLimit).
    ///
    /// While a request waits for its slot in a queue or for a look-up, it holds no readiness of the inner service. Afterwards a
    /// clone is made ready, within a [deadline](crate::RateLimitLayer::ready_deadline).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the inner service is called, it releases a ready inner instance. The units that the
    /// store was asked to charge may stay charged, with two exceptions. If it is dropped during a look-up, the charges of
    /// policies that [count rejections](crate::RateLimitLayer::counts_rejections) stay, and the others are refunded. If it is
    /// dropped before its slot in the queue of a [leaky bucket](portcullis_core::LeakyBucket), it gives the slot up: requests
    /// behind it in this process move up, and the last slot is refunded. A refund that the store does not answer at once
    /// continues in a task of the tokio runtime in which the future is dropped. Without a runtime, or beyond 1 024 such tasks of
    /// a limiter, the units stay charged.
    ///
    /// # Panics
    ///
    /// If the request has to wait for a slot, a look-up or the inner service and there is no tokio runtime with a timer.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    // A waiting request is boxed, so that the future is small where the answer is there at once, as with a store in memory.
    #[project = StateProjection]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { waiting: Option<Box<Waiting<S, B>>> },
        Called { #[pin] future: S::Future, headers: PendingHeaders },
        Answered { response: Option<Response<Full<Bytes>>> },
    }
}

/// A request that waits for its verdict, or for the inner service.
struct Waiting<S, B> {
    admission: Admission,
    admitted: Option<GettingReady>,
    inner: Inner<S>,
    parts: Parts,
    body: B,
}

/// An instance of the inner service.
pub(crate) enum Inner<S> {
    /// Polled ready, so it may be called.
    Ready(S),
    /// Not polled ready.
    Idle(S),
}

/// An admitted request that waits until the inner service is ready.
struct GettingReady {
    admitted: Admitted,
    /// Made when the inner service is not ready at once.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// The end of the wait of a request.
enum Outcome<E> {
    /// The inner service is ready for the request.
    Call(PendingHeaders),
    Answer(Response<Full<Bytes>>),
    Fail(E),
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(crate) fn waiting(admission: Admission, inner: Inner<S>, parts: Parts, body: B) -> Self {
        let waiting = Some(Box::new(Waiting { admission, admitted: None, inner, parts, body }));
        Self { state: State::Waiting { waiting } }
    }

    pub(crate) fn called(future: S::Future, headers: PendingHeaders) -> Self {
        Self { state: State::Called { future, headers } }
    }

    pub(crate) fn answered(response: Response<Full<Bytes>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }
}

impl<S, B> Waiting<S, B>
where
    S: Service<Request<B>> + Clone,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<S::Error>> {
        loop {
            if self.admitted.is_some() {
                match ready!(self.poll_ready(cx)) {
                    Some(outcome) => return Poll::Ready(outcome),
                    // The request is refunded and rejected.
                    None => continue,
                }
            }
            match self.admission.poll(&mut self.parts, cx) {
                Poll::Ready(Verdict::Admitted(admitted)) => {
                    self.admitted = Some(GettingReady { admitted, deadline: None });
                }
                Poll::Ready(Verdict::Rejected(response)) => return Poll::Ready(Outcome::Answer(response)),
                Poll::Pending => {
                    if !self.admission.keeps_readiness() {
                        self.inner.release();
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Polls the inner service ready for an admitted request. `None` if it was not ready in time.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome<S::Error>>> {
        let Some(getting_ready) = &mut self.admitted else { return Poll::Ready(None) };
        let answer = match &mut self.inner {
            Inner::Ready(_) => Ok(()),
            Inner::Idle(inner) => match inner.poll_ready(cx) {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    let deadline = self.admission.ready_deadline();
                    let deadline =
                        getting_ready.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(deadline)));
                    ready!(deadline.as_mut().poll(cx));
                    self.inner.release();
                    self.admission.reject_admitted(&getting_ready.admitted, &self.parts);
                    self.admitted = None;
                    return Poll::Ready(None);
                }
            },
        };
        let GettingReady { admitted, .. } = self.admitted.take().expect(LEFT);
        Poll::Ready(Some(match answer {
            Ok(()) => Outcome::Call(self.admission.proceed(admitted)),
            Err(error) => {
                self.admission.refund_admitted(&admitted);
                Outcome::Fail(error)
            }
        }))
    }
}

impl<S: Clone> Inner<S> {
    /// Drops the readiness of the instance, or its place among the instances that wait for it.
    fn release(&mut self) {
        let (Self::Ready(inner) | Self::Idle(inner)) = self;
        *self = Self::Idle(inner.clone());
    }
}

impl<S> Inner<S> {
    fn into_inner(self) -> S {
        let (Self::Ready(inner) | Self::Idle(inner)) = self;
        inner
    }
}

impl<S, B, ResBody> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>> + Clone,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { waiting } => {
                    let outcome = ready!(waiting.as_mut().expect(LEFT).poll(cx));
                    let Waiting { inner, parts, body, .. } = *waiting.take().expect(LEFT);
                    match outcome {
                        Outcome::Call(headers) => {
                            let future = inner.into_inner().call(Request::from_parts(parts, body));
                            State::Called { future, headers }
                        }
                        Outcome::Answer(response) => State::Answered { response: Some(response) },
                        Outcome::Fail(error) => return Poll::Ready(Err(error)),
                    }
                }
                StateProjection::Called { future, headers } => {
                    let mut response = ready!(future.poll(cx))?.map(ResponseBody::inner);
                    mem::take(headers).write(&mut response);
                    return Poll::Ready(Ok(response));
                }
                StateProjection::Answered { response } => {
                    let response = response.take().expect("a future is not polled after it has completed");
                    return Poll::Ready(Ok(response.map(ResponseBody::answer)));
                }
            };
            state.set(next);
        }
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Waiting { .. } => "waiting",
            State::Called { .. } => "called",
            State::Answered { .. } => "answered",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}

const LEFT: &str = "a state is left as soon as its wait is over";
