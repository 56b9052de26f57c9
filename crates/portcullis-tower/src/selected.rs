//! A service whose layer is chosen for each request.

mod future;
pub mod joint;
mod selection;

use std::fmt;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::body::discard;
use crate::charge::response_context::ResponseContext;
use crate::{ResponseBody, ResponseFuture, service};

pub use future::SelectedFuture;
pub(crate) use selection::Target;
pub use selection::{CurrentLayer, LayerLog, PreparedLayer, Selection};

/// Chooses the layer that limits a request, by its head.
pub trait SelectLayer: Send + Sync + 'static {
    /// Returns the layer with its policies as they are now. Called once for each request, before its admission; the request keeps
    /// the answer to its end.
    fn select(&self, parts: &Parts) -> Selection;
}

/// A service whose requests are limited by the layer that a [`SelectLayer`] chooses for each of them.
///
/// It limits a request as [`RateLimit`](crate::RateLimit) does, at the price of the choice. A request for which no layer is chosen
/// goes to the inner service unchanged.
///
/// ```
/// use std::sync::Arc;
///
/// use http::request::Parts;
/// use http::{Request, Response};
/// use portcullis_core::{ManualClock, Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{
///     Global, LayerLog, Limit, PolicyExt as _, PreparedLayer, RateLimitLayer, Registry, SelectedRateLimit,
///     Selection, SelectLayer,
/// };
/// use tower::{ServiceExt as _, service_fn};
///
/// /// Limits all paths but one.
/// struct Limited(PreparedLayer);
///
/// impl SelectLayer for Limited {
///     fn select(&self, parts: &Parts) -> Selection {
///         if parts.uri.path() == "/health" { Selection::none() } else { Selection::layer(self.0.current()) }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::builder().clock(ManualClock::default()).build();
/// let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
/// let layer = RateLimitLayer::new(registry, Policy::gcra("all", Quota::per_minute(1)).by(Global));
/// let limited = Arc::new(Limited(PreparedLayer::new(&layer, &LayerLog::default())));
/// let service = SelectedRateLimit::new(
///     service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(()))),
///     limited,
/// );
/// for (path, status) in [("/", 200), ("/", 429), ("/health", 200)] {
///     let request = Request::get(path).body(String::new())?;
///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SelectedRateLimit<S, L> {
    inner: S,
    selector: L,
}

impl<S, L> SelectedRateLimit<S, L> {
    /// Limits the requests to a service.
    pub fn new(inner: S, selector: L) -> Self {
        Self { inner, selector }
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

impl<S, L, ReqBody, ResBody> Service<Request<ReqBody>> for SelectedRateLimit<S, L>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    L: SelectLayer,
    ReqBody: Body + Send + 'static,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = SelectedFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let Self { inner, selector } = self;
        let request = request.into_parts();
        let Selection { target, header } = selector.select(&request.0);
        let future = match target {
            Target::None => ResponseFuture::call(inner, request.0, request.1, ResponseContext::default()),
            Target::Layer(CurrentLayer(config)) => service::limit(inner, &config, request),
            Target::Refused(refusal) => {
                let response = refusal.response(&request.0);
                discard::discard(&request.0, request.1, None, discard::BYTES);
                ResponseFuture::rejected(response)
            }
        };
        SelectedFuture::new(future, header)
    }
}

impl<L: SelectLayer + ?Sized> SelectLayer for std::sync::Arc<L> {
    fn select(&self, parts: &Parts) -> Selection {
        (**self).select(parts)
    }
}

impl<S: fmt::Debug, L> fmt::Debug for SelectedRateLimit<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedRateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService, L> tonic::server::NamedService for SelectedRateLimit<S, L> {
    const NAME: &'static str = S::NAME;
}
