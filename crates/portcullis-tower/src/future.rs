//! The response future: polls a waiting request, then the inner service, and writes the headers.

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
use crate::admission::Admission;
use crate::body::{BodyObserver, stated_length};
use crate::by_outcome::{Corrections, Judged};
use crate::charge::Reservation;
use crate::in_flight::RequestPermits;
use crate::response_context::ResponseContext;
use crate::waiting_request::{Instance, WaitEnd, WaitingRequest};

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
    /// policies that [count rejections](crate::RateLimitLayer::counts_rejections) stay, and the others are refunded. If it is
    /// dropped before its slot in the queue of a policy whose requests [wait](portcullis_core::Policy::wait_at_most), or of a
    /// [leaky bucket](portcullis_core::LeakyBucket), it gives the slot up: requests
    /// behind it in this process move up, and the last slot is refunded. A refund that the store does not answer at once
    /// continues in a task of the tokio runtime in which the future is dropped. Without a runtime, or beyond 1 024 such tasks of
    /// a limiter, the units stay charged.
    ///
    /// If the future is dropped after the inner service was called, the charges stay. Where a policy is charged
    /// [by outcome](crate::RateLimitLayer::charge_when), the request then has no outcome. A correction that the store does not
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
        Called { #[pin] future: S::Future, context: ResponseContext },
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
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(crate) fn waiting(admission: Admission, instance: Instance<S>, parts: Parts, body: B) -> Self {
        let request = Box::new(WaitingRequest::new(admission, instance, parts, body));
        Self { state: State::Waiting { request: Some(request) } }
    }

    #[inline]
    pub(crate) fn called(future: S::Future, context: ResponseContext) -> Self {
        Self { state: State::Called { future, context } }
    }

    pub(crate) fn rejected(response: Response<Full<Bytes>>) -> Self {
        Self { state: State::Rejected { response: Some(response) } }
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
                StateProjection::Waiting { request } => {
                    let end = ready!(request.as_mut().expect(COMPLETED).poll(cx));
                    let waiting = request.take().expect(COMPLETED);
                    match end {
                        WaitEnd::Call(mut context) => {
                            let (mut inner, request) = waiting.into_call();
                            let future = {
                                let _scope = context.enclose();
                                inner.call(request)
                            };
                            State::Called { future, context }
                        }
                        WaitEnd::Respond(response) => State::Rejected { response: Some(response) },
                        WaitEnd::Fail(error) => return Poll::Ready(Err(error)),
                    }
                }
                StateProjection::Called { future, context } => {
                    let answer = {
                        let _scope = context.enclose();
                        future.poll(cx)
                    };
                    let answer = ready!(answer);
                    if context.adds_nothing() {
                        *context = ResponseContext::default();
                        return Poll::Ready(answer.map(|response| response.map(ResponseBody::inner)));
                    }
                    // Also after an error, as its caller may keep this future.
                    let mut context = mem::take(context);
                    let response = answer?;
                    let observer = match context.take_outcome().map(|outcome| outcome.judge(&response)) {
                        None => None,
                        Some(Judged::AtEnd(observer)) => Some(observer),
                        Some(Judged::AtOnce(corrections)) if corrections.are_over() => None,
                        Some(Judged::AtOnce(corrections)) => {
                            let correcting = Box::new(Correcting { corrections, response, context });
                            state.set(State::Correcting { correcting: Some(correcting) });
                            continue;
                        }
                    };
                    return Poll::Ready(Ok(respond(response, context, observer)));
                }
                StateProjection::Correcting { correcting } => {
                    ready!(correcting.as_mut().expect(COMPLETED).corrections.poll(cx));
                    let Correcting { response, context, .. } = *correcting.take().expect(COMPLETED);
                    return Poll::Ready(Ok(respond(response, context, None)));
                }
                StateProjection::Rejected { response } => {
                    let response = response.take().expect(COMPLETED);
                    return Poll::Ready(Ok(response.map(ResponseBody::rejection)));
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
            State::Correcting { .. } => "correcting",
            State::Rejected { .. } => "rejected",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}

#[inline]
fn respond<B>(
    mut response: Response<B>,
    mut context: ResponseContext,
    outcome: Option<Box<dyn BodyObserver>>,
) -> Response<ResponseBody<B>> {
    let permits = context.take_permits();
    let reservation = context.write(&mut response);
    let mut response = response.map(ResponseBody::inner);
    if outcome.is_some() || reservation.is_some() || permits.is_some() {
        observe_body(&mut response, outcome, reservation, permits);
    }
    response
}

/// `outcome` gets the end of the body before a reservation is settled, as an outcome in the head is judged before.
#[cold]
fn observe_body<B>(
    response: &mut Response<ResponseBody<B>>,
    outcome: Option<Box<dyn BodyObserver>>,
    reservation: Option<Reservation>,
    permits: Option<RequestPermits>,
) {
    if let Some(outcome) = outcome {
        let length = stated_length(response.headers());
        response.body_mut().observe(length, outcome);
    }
    if let Some(reservation) = reservation {
        reservation.settle_at_end(response);
    }
    if let Some(permits) = permits {
        permits.release_at_end(response);
    }
}

const COMPLETED: &str = "polled after completion";
