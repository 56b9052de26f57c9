//! What makes the responses to rejected requests.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use crate::{GrpcRejection, RateLimitLayer, Rejection, RejectionFormat, RejectionResponse};

impl RateLimitLayer {
    /// Sets a closure that makes the response to every rejected HTTP request, in place of that of
    /// the limiter. It is not called for gRPC requests, whose response has a form of its own:
    /// [`reject_grpc_with`](Self::reject_grpc_with) changes it.
    ///
    /// The closure sets status, body and headers, and may start from the default response, [`Rejection::response`]. These
    /// headers are written over its response, so that they cannot be lost: `Cache-Control: no-store`, `Retry-After` where a
    /// retry can succeed, the [`headers`](Self::headers) of the budget, and `WWW-Authenticate` on a missing credential unless
    /// the closure sets one.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, PolicyExt as _, Quota, Reason};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let all = Policy::gcra("all", Quota::per_minute(1));
    /// let layer = testing::limiter(&ManualClock::default()).layer(all.by(Global)).reject_with(|rejection| {
    ///     if rejection.reason() != Reason::Limited {
    ///         return rejection.response();
    ///     }
    ///     let wait = rejection.retry_after_seconds().unwrap_or_default();
    ///     let page = format!("<p>{} is busy, come back in {wait} s", rejection.parts().uri.path());
    ///     let mut response = Response::new(page.into());
    ///     *response.status_mut() = rejection.status();
    ///     response
    /// });
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
    /// let rejected = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!((rejected.status().as_u16(), &rejected.headers()["retry-after"]), (429, &60.into()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_with<R: RejectionResponse>(
        mut self,
        response: impl Fn(&Rejection<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.config).change_responses(|responses| responses.set_custom(response));
        self
    }

    /// Sets the format of the body of rejections for clients without a preference, plain text by default, in place of that of
    /// the limiter: those that send no `Accept`,
    /// `*/*` as `fetch` and curl do, or none of the three types.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::layer::RejectionFormat;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let api = Policy::fixed_window("api", Quota::per_day(1)).by(Global);
    /// let layer = Limiter::memory().layer(api).reject_as(RejectionFormat::Problem);
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let get = || Request::builder().header("accept", "*/*").body(String::new());
    /// service.clone().oneshot(get()?).await?;
    /// assert_eq!(service.oneshot(get()?).await?.headers()["content-type"], "application/problem+json");
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_as(mut self, format: RejectionFormat) -> Self {
        Arc::make_mut(&mut self.config).change_responses(|responses| responses.set_format(format));
        self
    }

    /// Sets a closure that changes the response to every rejected gRPC request, in place of that of
    /// the limiter: its status, its message and further headers. What makes
    /// it a rejection in gRPC is written afterwards.
    ///
    /// ```
    /// use http::{HeaderValue, Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::layer::GrpcCode;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Reason};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let calls = Policy::fixed_window("calls", Quota::per_day(1)).by(Global);
    /// let layer = Limiter::memory().layer(calls).reject_grpc_with(|rejection, response| {
    ///     if rejection.reason() == Reason::Limited {
    ///         response.set_code(GrpcCode::Unavailable);
    ///         response.headers_mut().insert("x-plan", HeaderValue::from_static("free"));
    ///     }
    /// });
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let call = || Request::post("/a.B/C").header("content-type", "application/grpc").body(String::new());
    /// service.clone().oneshot(call()?).await?;
    /// let rejected = service.oneshot(call()?).await?;
    /// assert_eq!((&rejected.headers()["grpc-status"], &rejected.headers()["x-plan"]), (&14.into(), &"free".parse()?));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_grpc_with(
        mut self,
        change: impl Fn(&Rejection<'_>, &mut GrpcRejection) + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.config).change_responses(|responses| responses.set_grpc(change));
        self
    }

    /// Returns the closure that makes the responses to rejected requests: that of [`reject_with`](Self::reject_with), else that of
    /// the limiter. `None` without one: the response is [`Rejection::response`].
    ///
    /// With it, a closure for some rejections leaves the others as they are:
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::layer::RequestPath;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Reason};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory()
    ///     .reject_with(|rejection| Response::builder().status(rejection.status()).body("no".into()).unwrap());
    /// let policy = Policy::fixed_window("all", Quota::per_day(1));
    /// let layer = limiter.layer(policy.by(Global)).deny(RequestPath::exact("/admin"));
    /// let otherwise = layer.rejection().expect("the limiter has a closure");
    /// let layer = layer.reject_with(move |rejection| match rejection.reason() {
    ///     Reason::Denied => Response::builder().status(404).body("nothing is here".into()).unwrap(),
    ///     _ => otherwise(rejection),
    /// });
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// for (path, status) in [("/admin", 404), ("/", 200), ("/", 429)] {
    ///     let request = Request::get(path).body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::type_complexity, reason = "an alias would hide what the closure takes and returns")]
    pub fn rejection(&self) -> Option<Arc<dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync>> {
        self.config.responses.custom()
    }
}
