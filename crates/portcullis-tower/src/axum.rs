//! The layer for Axum, whose responses have Axum's body.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{RateLimit, RateLimitLayer, ResponseFuture};

impl RateLimitLayer {
    /// Makes the layer whose responses have the body of Axum, so that a router does not box the body of each response. It limits as
    /// this one does, and shares its budgets.
    ///
    /// Without it a router, a method router or a route boxes the body of every response, which is another allocation. With it a body
    /// of Axum that the inner service returns stays as it is, unless the layer observes its end: for a policy that
    /// [reserves](crate::Limit::reserve), is [charged by outcome](crate::Limit::charge_when) in gRPC, or limits [requests in
    /// flight](portcullis_core::Concurrency). Of several layers around a service each needs it. Call it last: the layer that it
    /// returns has no options, and does not tell its policies or headers.
    ///
    /// ```
    /// use axum::{Router, body::Body, http::Request, routing::get};
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::ServiceExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = Limiter::memory().layer(Policy::fixed_window("all", Quota::per_day(1)).by(Global));
    /// let app: Router = Router::new().route("/", get(|| async { "found" })).layer(limit.for_axum());
    /// for status in [200, 429] {
    ///     let response = app.clone().oneshot(Request::new(Body::empty())).await?;
    ///     assert_eq!(response.status(), status);
    ///     assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_axum(self) -> AxumRateLimitLayer {
        AxumRateLimitLayer { layer: self }
    }
}

/// Limits the requests to a service, and answers with the body of Axum. Made by [`RateLimitLayer::for_axum`].
///
/// The inner service may have any body that Axum's `Body::new` takes.
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing until it is applied"]
pub struct AxumRateLimitLayer {
    layer: RateLimitLayer,
}

impl<S> Layer<S> for AxumRateLimitLayer {
    type Service = AxumRateLimit<S>;

    fn layer(&self, inner: S) -> AxumRateLimit<S> {
        AxumRateLimit { service: self.layer.layer(inner) }
    }
}

/// A service whose requests are limited, and whose responses have the body of Axum. Made by an [`AxumRateLimitLayer`].
#[derive(Clone, Debug)]
pub struct AxumRateLimit<S> {
    service: RateLimit<S>,
}

impl<S> AxumRateLimit<S> {
    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        self.service.get_ref()
    }

    /// Returns the inner service, mutably.
    pub fn get_mut(&mut self) -> &mut S {
        self.service.get_mut()
    }

    /// Unwraps the inner service.
    pub fn into_inner(self) -> S {
        self.service.into_inner()
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for AxumRateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ReqBody: http_body::Body + Send + 'static,
    ResBody: http_body::Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = AxumFuture<S, ReqBody>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        AxumFuture { future: self.service.call(request) }
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for AxumRateLimit<S> {
    const NAME: &'static str = S::NAME;
}

pin_project! {
    /// The response future of [`AxumRateLimit`]: a [`ResponseFuture`] whose response has the body of Axum.
    ///
    /// # Cancel safety
    ///
    /// As for [`ResponseFuture`].
    ///
    /// # Panics
    ///
    /// As [`ResponseFuture`] does.
    pub struct AxumFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        future: ResponseFuture<S, B>,
    }
}

impl<S, B, ResBody> Future for AxumFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>> + Clone,
    B: http_body::Body + Send + 'static,
    ResBody: http_body::Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<BoxError>,
{
    type Output = Result<Response<Body>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll_with(cx, Body::new, Body::from)
    }
}

impl<S, B> fmt::Debug for AxumFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.future, f)
    }
}
