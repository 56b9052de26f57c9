//! The service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::future::Held;
use crate::rules::{Conclusion, Rules};
use crate::{ResponseBody, ResponseFuture};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Its clones share their budgets. The request body and the error are those of the inner service: a rejection is a
/// response.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (parts, body) = request.into_parts();
        if let Some(lookups) = self.rules.look_up(&parts) {
            let held = Held { inner: self.take_ready(), request: Request::from_parts(parts, body) };
            return ResponseFuture::identifying(lookups, held, Arc::clone(&self.rules));
        }
        let question = self.rules.question(&parts, &[]);
        let mut request = Request::from_parts(parts, body);
        let question = match question {
            Ok(Some(question)) => question,
            Ok(None) => return ResponseFuture::called(self.inner.call(request), None),
            Err(error) => return ResponseFuture::answered(self.rules.refuse_key(&error, request.headers())),
        };
        let otherwise = question.otherwise;
        match self.rules.ask(question.checks).into_ready() {
            Ok(answer) => match self.rules.conclude(answer, otherwise, &mut request) {
                Conclusion::Refuse(response) => ResponseFuture::answered(response),
                Conclusion::Pass(note) if note.decision.delay().is_zero() => {
                    ResponseFuture::called(self.inner.call(request), Some(note))
                }
                Conclusion::Pass(note) => {
                    ResponseFuture::delayed(Held { inner: self.take_ready(), request }, note)
                }
            },
            Err(pending) => {
                let held = Held { inner: self.take_ready(), request };
                ResponseFuture::asking(pending, held, Arc::clone(&self.rules), otherwise)
            }
        }
    }
}

impl<S: Clone> RateLimit<S> {
    fn take_ready(&mut self) -> S {
        // Only this instance was polled ready: it is called later, and the clone stays to be polled.
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
