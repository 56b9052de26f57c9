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
use tower_service::Service;

use crate::ResponseBody;
use crate::admission::{Admission, Verdict};
use crate::answer::Note;

pin_project! {
    /// The response future of [`RateLimit`](crate::RateLimit).
    ///
    /// # Cancel safety
    ///
    /// Dropped before the inner service is called, it gives the ready inner instance back. What the store was asked to
    /// charge may stay charged.
    ///
    /// # Panics
    ///
    /// If an admitted request has to wait first and there is no tokio runtime with a timer.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    // What waits is boxed: an answer that is there at once, as of a store in memory, moves a small future.
    #[project = StateProjection]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { waiting: Option<Box<Waiting<S, B>>> },
        Called { #[pin] future: S::Future, note: Note },
        Answered { response: Option<Response<Full<Bytes>>> },
    }
}

/// A request that waits for its verdict, and the ready service.
struct Waiting<S, B> {
    admission: Admission,
    inner: S,
    parts: Parts,
    body: B,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(crate) fn waiting(admission: Admission, inner: S, parts: Parts, body: B) -> Self {
        let waiting = Some(Box::new(Waiting { admission, inner, parts, body }));
        Self { state: State::Waiting { waiting } }
    }

    pub(crate) fn called(future: S::Future, note: Note) -> Self {
        Self { state: State::Called { future, note } }
    }

    pub(crate) fn answered(response: Response<Full<Bytes>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }
}

impl<S, B, ResBody> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { waiting } => {
                    let Waiting { admission, parts, .. } = &mut **waiting.as_mut().expect(LEFT);
                    let verdict = ready!(admission.poll(parts, cx));
                    let Waiting { mut inner, parts, body, .. } = *waiting.take().expect(LEFT);
                    match verdict {
                        Verdict::Admitted(note) => {
                            State::Called { future: inner.call(Request::from_parts(parts, body)), note }
                        }
                        Verdict::Rejected(response) => State::Answered { response: Some(response) },
                    }
                }
                StateProjection::Called { future, note } => {
                    let mut response = ready!(future.poll(cx))?.map(ResponseBody::inner);
                    mem::take(note).write(&mut response);
                    return Poll::Ready(Ok(response));
                }
                StateProjection::Answered { response } => {
                    let response = response.take().expect("a future is not polled after it has answered");
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
