//! The response future: polls a waiting request, then the inner service, and writes the headers.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::ResponseBody;
use crate::admission::Waiting;
use crate::charge::owed::{Corrections, Owed};
use crate::charge::response_context::ResponseContext;
use crate::service::waiting_request::{Instance, WaitEnd, WaitingRequest};

pin_project! {
    /// The response future of [`RateLimit`](crate::RateLimit).
    ///
    /// While a request waits for its slot in a queue, a window or a look-up, it does not keep an instance of the inner service
    /// ready.
    /// Afterwards a clone is made ready, within a [deadline](crate::RateLimitLayer::ready_deadline).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the inner service is called, it releases a ready inner instance. The units that the
    /// store was asked to charge may stay charged, with two exceptions. If it is dropped during a look-up, the charges of
    /// policies that [count rejections](crate::Limit::count_rejections) stay, and the others are refunded. If it is
    /// dropped before its slot in the queue of a policy whose requests [wait](portcullis_core::Policy::wait_at_most), or of a
    /// [leaky bucket](portcullis_core::LeakyBucket), it gives the slot up: requests
    /// behind it in this process move up, and the last slot is refunded. A refund that the store does not answer at once
    /// continues in a task of the tokio runtime in which the future is dropped. Without a runtime, or beyond 1 024 such tasks of
    /// a limiter, the units stay charged.
    ///
    /// If the future is dropped after the inner service was called, the charges stay. Where a policy is charged
    /// [by outcome](crate::Limit::charge_when), the request then has no outcome. A correction that the store does not
    /// answer at once, the one that the response waits for included, continues in such a task.
    ///
    /// # Panics
    ///
    /// If the request has to wait for a slot, a window, a look-up or the inner service and there is no tokio runtime with a timer.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
        // Empty until the inner service is called.
        context: ResponseContext,
    }
}

pin_project! {
    // A waiting request is boxed, so that the future is small where the store answers at once, as one in memory does.
    #[project = StateProjection]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { request: Option<Box<WaitingRequest<S, B>>> },
        Called { #[pin] future: S::Future },
        // The response waits for the correction of a charge by its outcome.
        Correcting { correcting: Option<Box<Correcting<S::Response>>> },
        Rejected { response: Option<Response<Full<Bytes>>> },
    }
}

/// A response whose outcome has changed what it was charged.
struct Correcting<R> {
    corrections: Corrections,
    response: R,
    context: ResponseContext,
    owed: Box<Owed>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(crate) fn waiting(waiting: Waiting, instance: Instance<S>, body: B) -> Self {
        let request = Box::new(WaitingRequest::new(waiting, instance, body));
        Self::in_state(State::Waiting { request: Some(request) })
    }

    /// Calls the inner service, which is ready.
    // The request and the future of the service are moved as seldom as possible: each time takes as long as a look-up in a map. So
    // the request is made where it is passed on.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "parts that are passed to a function are moved")]
    pub(crate) fn call(inner: &mut S, parts: Parts, body: B, context: ResponseContext) -> Self {
        Self { state: State::Called { future: inner.call(Request::from_parts(parts, body)) }, context }
    }

    pub(crate) fn rejected(response: Response<Full<Bytes>>) -> Self {
        Self::in_state(State::Rejected { response: Some(response) })
    }

    fn in_state(state: State<S, B>) -> Self {
        Self { state, context: ResponseContext::default() }
    }
}

impl<S, B, ResBody> ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>> + Clone,
    B: Body + Send + 'static,
{
    /// Polls for the response, whose body `of_inner` makes of that of the inner service, or `of_whole` of one that is observed or a
    /// rejection.
    // The caller does not map the response itself: each time that it is moved takes as long as a look-up in a map.
    #[inline]
    pub(crate) fn poll_with<AnyBody>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        of_inner: impl FnOnce(ResBody) -> AnyBody,
        of_whole: impl FnOnce(ResponseBody<ResBody>) -> AnyBody,
    ) -> Poll<Result<Response<AnyBody>, S::Error>> {
        let this = self.project();
        let (mut state, context) = (this.state, this.context);
        loop {
            let future = match state.as_mut().project() {
                StateProjection::Called { future } => future,
                StateProjection::Rejected { response } => {
                    let response = response.take().expect(COMPLETED);
                    return Poll::Ready(Ok(response.map(|body| of_whole(ResponseBody::rejection(body)))));
                }
                StateProjection::Waiting { request } => {
                    let next = ready!(poll_waiting(request, context, cx))?;
                    state.set(next);
                    continue;
                }
                StateProjection::Correcting { correcting } => {
                    let response = ready!(poll_correcting(correcting, cx));
                    return Poll::Ready(Ok(response.map(of_whole)));
                }
            };
            let answer = ready!(future.poll(cx));
            if context.adds_nothing() {
                return Poll::Ready(answer.map(|response| response.map(of_inner)));
            }
            // Also after an error, as its caller may keep this future.
            let mut context = mem::take(context);
            let mut response = answer?;
            let Some(mut owed) = context.take_owed() else {
                context.write(&mut response);
                return Poll::Ready(Ok(response.map(of_inner)));
            };
            let corrections = owed.judge(&response).filter(|corrections| !corrections.are_over());
            if let Some(corrections) = corrections {
                let correcting = Box::new(Correcting { corrections, response, context, owed });
                state.set(State::Correcting { correcting: Some(correcting) });
                continue;
            }
            context.write(&mut response);
            return Poll::Ready(Ok(if owed.is_over() {
                response.map(of_inner)
            } else {
                owed.observe(response).map(of_whole)
            }));
        }
    }
}

/// Polls a request that waits for its admission. Returns the state that follows.
fn poll_waiting<S, B>(
    request: &mut Option<Box<WaitingRequest<S, B>>>,
    context: &mut ResponseContext,
    cx: &mut Context<'_>,
) -> Poll<Result<State<S, B>, S::Error>>
where
    S: Service<Request<B>> + Clone,
    B: Body + Send + 'static,
{
    let end = ready!(request.as_mut().expect(COMPLETED).poll(cx));
    *request = None;
    Poll::Ready(match end {
        WaitEnd::Call(mut inner, request, of_call) => {
            *context = of_call;
            Ok(State::Called { future: inner.call(request) })
        }
        WaitEnd::Respond(response) => Ok(State::Rejected { response: Some(response) }),
        WaitEnd::Fail(error) => Err(error),
    })
}

/// Polls the correction of a charge. Returns the response that waits for it.
fn poll_correcting<B>(
    correcting: &mut Option<Box<Correcting<Response<B>>>>,
    cx: &mut Context<'_>,
) -> Poll<Response<ResponseBody<B>>> {
    ready!(correcting.as_mut().expect(COMPLETED).corrections.poll(cx));
    let Correcting { mut response, context, owed, .. } = *correcting.take().expect(COMPLETED);
    context.write(&mut response);
    Poll::Ready(owed.observe(response))
}

impl<S, B, ResBody> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>> + Clone,
    B: Body + Send + 'static,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(cx, ResponseBody::inner, |body| body)
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
            State::Correcting { .. } => "correcting",
            State::Rejected { .. } => "rejected",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}

const COMPLETED: &str = "polled after completion";
