//! The service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::admission::{Admission, Step, Verdict};
use crate::future::Inner;
use crate::rules::LayerConfig;
use crate::{ResponseBody, ResponseFuture};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Its clones share their budgets. The request body and the error are those of the inner service: a rejection is a
/// response. The body has to be an [`http_body::Body`], which says whether a request
/// [can be a preflight](crate::RateLimitLayer::limit_preflights); nothing is read from it.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<LayerConfig>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, rules: Arc<LayerConfig>) -> Self {
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
    ReqBody: Body,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let question = self.rules.preflight(&parts, &body).unwrap_or_else(|| self.rules.question(&parts));
        match Admission::start(&self.rules, question, &mut parts) {
            Step::Done(Verdict::Admitted(admitted)) => {
                ResponseFuture::called(self.inner.call(Request::from_parts(parts, body)), admitted.note)
            }
            Step::Done(Verdict::Rejected(response)) => ResponseFuture::answered(response),
            Step::Wait(admission) => {
                let inner =
                    if admission.keeps_readiness() { self.take_ready() } else { self.release_ready() };
                ResponseFuture::waiting(admission, inner, parts, body)
            }
        }
    }
}

impl<S: Clone> RateLimit<S> {
    /// The instance that was polled ready. Only that may be called; the clone that stays is to be polled.
    fn take_ready(&mut self) -> Inner<S> {
        let clone = self.inner.clone();
        Inner::Ready(mem::replace(&mut self.inner, clone))
    }

    /// Gives up the readiness of the instance that was polled ready: neither what is returned nor what stays has it.
    fn release_ready(&mut self) -> Inner<S> {
        self.inner = self.inner.clone();
        Inner::Idle(self.inner.clone())
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
