//! Starts the admission of each request, and calls the inner service at once if possible.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::admission::{self, Admission, Step, Verdict};
use crate::config::LayerConfig;
use crate::off;
use crate::response_context::ResponseContext;
use crate::waiting_request::Instance;
use crate::{ResponseBody, ResponseFuture};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Its clones share their budgets. The request body and the error are those of the inner service: a rejection is a
/// response. The body has to be an [`http_body::Body`], which tells whether a request
/// [can be a preflight](crate::RateLimitLayer::limit_preflights); the layer does not read it.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    config: Arc<LayerConfig>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, config: Arc<LayerConfig>) -> Self {
        Self { inner, config }
    }

    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service, mutably.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Unwraps the inner service.
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
        if self.config.registry.is_off() {
            off::admit(&self.config, &mut parts.extensions);
            let future = self.inner.call(Request::from_parts(parts, body));
            return ResponseFuture::called(future, ResponseContext::default());
        }
        let plan = admission::plan_checks(&self.config, &parts, &body);
        match Admission::start(&self.config, plan, &mut parts) {
            Step::Done(Verdict::Admitted(admitted)) => {
                admitted.emit_admitted(&self.config);
                let mut context = admitted.into_context(&mut parts.extensions);
                let future = {
                    let _scope = context.enclose();
                    self.inner.call(Request::from_parts(parts, body))
                };
                ResponseFuture::called(future, context)
            }
            Step::Done(Verdict::Rejected(response)) => ResponseFuture::rejected(response),
            Step::Wait(admission) => {
                let instance =
                    if admission.keeps_readiness() { self.take_ready() } else { self.release_ready() };
                ResponseFuture::waiting(admission, instance, parts, body)
            }
        }
    }
}

impl<S: Clone> RateLimit<S> {
    /// Takes the instance that was polled ready, the only one that may be called. A clone that is not ready replaces it.
    fn take_ready(&mut self) -> Instance<S> {
        let clone = self.inner.clone();
        Instance::ready(mem::replace(&mut self.inner, clone))
    }

    /// Drops the instance that was polled ready. Neither the returned instance nor the one that stays is ready.
    fn release_ready(&mut self) -> Instance<S> {
        self.inner = self.inner.clone();
        Instance::idle(self.inner.clone())
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
