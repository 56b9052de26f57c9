//! Polls the admission of a request, then the readiness of the inner service.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tokio::time::Sleep;
use tower_service::Service;

use crate::admission::{Admission, Admitted, Rejected, Verdict};
use crate::discard::discard;
use crate::response_context::ResponseContext;

/// A request that waits for its verdict, or for the inner service.
pub(crate) struct WaitingRequest<S, B> {
    admission: Admission,
    /// `Some` while the inner service gets ready.
    admitted: Option<Admitted>,
    instance: Instance<S>,
    parts: Parts,
    body: B,
}

/// The end of the wait of a request.
pub(crate) enum WaitEnd<E> {
    /// The inner service is ready for the request.
    Call(ResponseContext),
    /// The request is rejected.
    Respond(Rejected),
    /// The inner service has failed while it got ready.
    Fail(E),
}

impl<S, B> WaitingRequest<S, B> {
    pub(crate) fn new(admission: Admission, instance: Instance<S>, parts: Parts, body: B) -> Self {
        Self { admission, admitted: None, instance, parts, body }
    }

    /// The response to the request, whose body is discarded.
    pub(crate) fn reject(self, rejected: Rejected) -> Response<Full<Bytes>>
    where
        B: Body + Send + 'static,
    {
        discard(&self.parts, self.body, rejected.key, self.admission.discarded_bytes());
        rejected.response
    }

    /// The inner service has failed: whatever answers the request, its body is discarded.
    pub(crate) fn fail(self)
    where
        B: Body + Send + 'static,
    {
        discard(&self.parts, self.body, None, self.admission.discarded_bytes());
    }

    /// The ready instance and the request to call it with.
    pub(crate) fn into_call(self) -> (S, Request<B>) {
        (self.instance.inner, Request::from_parts(self.parts, self.body))
    }
}

impl<S, B> WaitingRequest<S, B>
where
    S: Service<Request<B>> + Clone,
{
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WaitEnd<S::Error>> {
        loop {
            if let Some(admitted) = self.admitted.take() {
                match self.instance.poll_ready(self.admission.ready_deadline(), cx) {
                    Poll::Ready(Ok(true)) => {
                        self.admission.emit_admitted(&admitted, &self.parts);
                        let context = admitted.into_context(&mut self.parts);
                        return Poll::Ready(WaitEnd::Call(context));
                    }
                    Poll::Ready(Ok(false)) => self.admission.reject_admitted(&admitted, &self.parts),
                    Poll::Ready(Err(error)) => {
                        self.admission.refund_admitted(&admitted);
                        return Poll::Ready(WaitEnd::Fail(error));
                    }
                    Poll::Pending => {
                        self.admitted = Some(admitted);
                        return Poll::Pending;
                    }
                }
            }
            match self.admission.poll(&mut self.parts, cx) {
                Poll::Ready(Verdict::Admitted(admitted)) => self.admitted = Some(admitted),
                Poll::Ready(Verdict::Rejected(rejected)) => return Poll::Ready(WaitEnd::Respond(rejected)),
                Poll::Pending => {
                    if !self.admission.keeps_readiness() {
                        self.instance.release();
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

/// An instance of the inner service for one request.
pub(crate) struct Instance<S> {
    inner: S,
    /// Whether it was polled ready, so that it may be called.
    is_ready: bool,
    /// Made when the instance is not ready at once.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Instance<S> {
    pub(crate) fn ready(inner: S) -> Self {
        Self { inner, is_ready: true, deadline: None }
    }

    pub(crate) fn idle(inner: S) -> Self {
        Self { inner, is_ready: false, deadline: None }
    }

    /// Gets the instance ready. Returns whether it was ready within `limit`.
    fn poll_ready<R>(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<Result<bool, S::Error>>
    where
        S: Service<R> + Clone,
    {
        if !self.is_ready {
            if let Poll::Ready(ready) = self.inner.poll_ready(cx) {
                self.is_ready = ready.is_ok();
                return Poll::Ready(ready.map(|()| true));
            }
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            ready!(deadline.as_mut().poll(cx));
            self.release();
        }
        Poll::Ready(Ok(self.is_ready))
    }

    /// Drops the readiness of the instance, or its place among the instances that wait for it.
    fn release(&mut self)
    where
        S: Clone,
    {
        self.inner = self.inner.clone();
        self.is_ready = false;
    }
}
