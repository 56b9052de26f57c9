//! The response future of a service whose layer is chosen for each request.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{ResponseBody, ResponseFuture};

pin_project! {
    /// The response future of [`SelectedRateLimit`](crate::SelectedRateLimit): that of [`RateLimit`](crate::RateLimit), with the header
    /// that the [`Selection`](crate::Selection) adds.
    pub struct SelectedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        future: ResponseFuture<S, B>,
        header: Option<Box<(HeaderName, HeaderValue)>>,
    }
}

impl<S, B> SelectedFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn new(future: ResponseFuture<S, B>, header: Option<Box<(HeaderName, HeaderValue)>>) -> Self {
        Self { future, header }
    }
}

impl<S, B, ResBody> Future for SelectedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>> + Clone,
    B: Body + Send + 'static,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.future.poll(cx))?;
        if let Some(header) = this.header.take() {
            let (name, value) = *header;
            response.headers_mut().insert(name, value);
        }
        Poll::Ready(Ok(response))
    }
}

impl<S, B> fmt::Debug for SelectedFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.future, f)
    }
}
