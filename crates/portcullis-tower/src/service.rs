//! Starts the admission of each request, and calls the inner service at once if possible.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::admission::{self, Started};
use crate::config::{CurrentConfig, LiveConfig};
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
    config: Arc<LiveConfig>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, config: Arc<LiveConfig>) -> Self {
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
        let Self { inner, config } = self;
        let config = config.current();
        let (parts, body) = request.into_parts();
        limit(inner, config, parts, body)
    }
}

/// Limits a request by a configuration, and calls the inner service, which is ready, at once if possible.
#[inline]
pub(crate) fn limit<S, ReqBody, ResBody>(
    inner: &mut S,
    config: CurrentConfig<'_>,
    mut parts: Parts,
    body: ReqBody,
) -> ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ReqBody: Body,
{
    if config.registry.is_off() {
        off::admit(&config, &mut parts.extensions);
        return ResponseFuture::call(inner, Request::from_parts(parts, body), ResponseContext::default());
    }
    let (config, awaited) = config.for_caller(&parts);
    match admission::start(&config, awaited, &mut parts, &body) {
        Started::Admitted(context) => ResponseFuture::call(inner, Request::from_parts(parts, body), context),
        Started::Rejected(response) => ResponseFuture::rejected(response),
        Started::Waiting(admission) => {
            let instance = if admission.keeps_readiness() { take_ready(inner) } else { release_ready(inner) };
            ResponseFuture::waiting(admission, instance, parts, body)
        }
    }
}

/// Takes the instance that was polled ready, the only one that may be called. A clone that is not ready replaces it.
fn take_ready<S: Clone>(inner: &mut S) -> Instance<S> {
    let clone = inner.clone();
    Instance::ready(mem::replace(inner, clone))
}

/// Drops the instance that was polled ready. Neither the returned instance nor the one that stays is ready.
fn release_ready<S: Clone>(inner: &mut S) -> Instance<S> {
    *inner = inner.clone();
    Instance::idle(inner.clone())
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
