//! Starts the admission of each request, and calls the inner service at once if possible.

pub(crate) mod future;
pub(crate) mod waiting_request;

use std::fmt;
use std::mem;
use std::sync::Arc;
#[cfg(feature = "axum")]
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Extensions, Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::admission::{self, Decided, Started, Waiting, admit, fast_path};
use crate::body::discard::discard;
use crate::config::{CurrentConfig, LayerConfig, LiveConfig};
use crate::service::waiting_request::Instance;
use crate::{ResponseBody, ResponseFuture};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Its clones share their budgets. The request body and the error are those of the inner service: a rejection is a
/// response. The body has to be an `http_body::Body`, which tells whether a request
/// [can be a preflight](crate::RateLimitLayer::limit_preflights). The layer reads that of a rejected request only, to
/// [discard it](crate::RateLimitLayer::discard_bodies).
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    place: Arc<ServicePlace>,
}

/// What all clones of one service share: the layer, in one place of a router.
pub(crate) struct ServicePlace {
    config: Arc<LiveConfig>,
    /// Whether the layer knows the route of the service.
    #[cfg(feature = "axum")]
    has_route: AtomicBool,
}

impl ServicePlace {
    /// The configuration for a request. Its route is learnt by the first one.
    #[inline]
    fn config_for(&self, request: &Extensions) -> CurrentConfig<'_> {
        #[cfg(feature = "axum")]
        if !self.has_route.load(Relaxed) {
            self.learn_route(request);
        }
        #[cfg(not(feature = "axum"))]
        let _ = request;
        self.config.current()
    }

    #[cfg(feature = "axum")]
    #[cold]
    fn learn_route(&self, request: &Extensions) {
        self.has_route.store(true, Relaxed);
        if let Some(route) = request.get::<axum::extract::MatchedPath>() {
            self.config.learn_route(route.as_str());
        }
    }
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, config: Arc<LiveConfig>) -> Self {
        let place = ServicePlace {
            config,
            #[cfg(feature = "axum")]
            has_route: AtomicBool::new(false),
        };
        Self { inner, place: Arc::new(place) }
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
    ReqBody: Body + Send + 'static,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let Self { inner, place } = self;
        limit(inner, &place.config_for(request.extensions()), request.into_parts())
    }
}

/// Limits a request by a configuration, and calls the inner service, which is ready, at once if possible.
// The request is one argument, in its parts: each variable that it is moved to is a copy of some hundred bytes.
#[inline]
pub(crate) fn limit<S, ReqBody, ResBody>(
    inner: &mut S,
    config: &Arc<LayerConfig>,
    mut request: (Parts, ReqBody),
) -> ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ReqBody: Body + Send + 'static,
{
    let (parts, body) = &mut request;
    let started = match fast_path::policy(config, parts) {
        Some(limit) => fast_path::start(config, limit, parts),
        None => admission::start(config, parts, body),
    };
    match started {
        Started::Admitted(context) => ResponseFuture::call(inner, request.0, request.1, context),
        Started::Rejected(rejected) => {
            discard(&request.0, request.1, rejected.key, config.discarded_bytes);
            ResponseFuture::rejected(rejected.response)
        }
        Started::Later(plan) => {
            let (parts, body) = request;
            wait(inner, Waiting::new(config, plan, parts), body)
        }
    }
}

/// Goes on with a request that may have to wait: then an instance of the inner service is kept with it.
#[inline(never)]
fn wait<S, ReqBody>(inner: &mut S, mut waiting: Waiting, body: ReqBody) -> ResponseFuture<S, ReqBody>
where
    S: Service<Request<ReqBody>> + Clone,
    ReqBody: Body + Send + 'static,
{
    match waiting.probe() {
        Some(Decided { config, mut parts, result: Ok(admitted) }) => {
            let context = admit::later(&config, admitted, &mut parts);
            ResponseFuture::call(inner, parts, body, context)
        }
        Some(Decided { config, parts, result: Err(rejected) }) => {
            discard(&parts, body, rejected.key, config.discarded_bytes);
            ResponseFuture::rejected(rejected.response)
        }
        None => {
            let instance = if waiting.keeps_readiness() { take_ready(inner) } else { release_ready(inner) };
            ResponseFuture::waiting(waiting, instance, body)
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

impl fmt::Debug for ServicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.config, f)
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
