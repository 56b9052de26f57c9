//! The response future: waits until the inner service is ready if it must, and hands the permit to the response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::ShedBody;
use crate::config::Permit;

pin_project! {
    /// The response future of [`Shed`](crate::Shed).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is not in flight any more, and the inner future is dropped.
    pub struct ShedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        // Dropped before the permit.
        #[pin]
        state: State<S, B>,
        permit: Option<Permit>,
    }
}

pin_project! {
    // A request that waits is boxed, so that the future is small where the inner service is ready.
    #[project = StateProjection]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { waiting: Option<Box<Waiting<S, B>>> },
        Called { #[pin] future: S::Future },
        Rejected { response: Option<Response<Full<Bytes>>> },
    }
}

/// A request, and the instance of the inner service that becomes ready for it.
struct Waiting<S, B> {
    inner: S,
    request: Request<B>,
}

impl<S, B> ShedFuture<S, B>
where
    S: Service<Request<B>>,
{
    #[inline]
    pub(crate) fn called(future: S::Future, permit: Option<Permit>) -> Self {
        Self { state: State::Called { future }, permit }
    }

    pub(crate) fn waiting(inner: S, request: Request<B>, permit: Option<Permit>) -> Self {
        Self { state: State::Waiting { waiting: Some(Box::new(Waiting { inner, request })) }, permit }
    }

    pub(crate) fn rejected(response: Response<Full<Bytes>>) -> Self {
        Self { state: State::Rejected { response: Some(response) }, permit: None }
    }
}

impl<S, B, ResBody> Future for ShedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
{
    type Output = Result<Response<ShedBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { waiting } => {
                    let polled = ready!(waiting.as_mut().expect(COMPLETED).inner.poll_ready(cx));
                    let Waiting { mut inner, request } = *waiting.take().expect(COMPLETED);
                    if let Err(error) = polled {
                        *this.permit = None;
                        return Poll::Ready(Err(error));
                    }
                    State::Called { future: inner.call(request) }
                }
                StateProjection::Called { future } => {
                    let answer = ready!(future.poll(cx));
                    // Also after an error, as its caller may keep this future.
                    let permit = this.permit.take();
                    let response = answer?;
                    let permit = permit.and_then(|permit| permit.head(response.status(), response.headers()));
                    return Poll::Ready(Ok(response.map(|body| ShedBody::inner(body, permit))));
                }
                StateProjection::Rejected { response } => {
                    let response = response.take().expect(COMPLETED);
                    return Poll::Ready(Ok(response.map(ShedBody::rejection)));
                }
            };
            this.state.set(next);
        }
    }
}

impl<S, B> fmt::Debug for ShedFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Waiting { .. } => "waiting",
            State::Called { .. } => "called",
            State::Rejected { .. } => "rejected",
        };
        f.debug_struct("ShedFuture").field("state", &state).finish_non_exhaustive()
    }
}

const COMPLETED: &str = "polled after completion";
