//! One body type for responses of the inner service and for rejections.

#[cfg(feature = "axum")]
mod axum;
pub(crate) mod discard;
mod either;
mod end;
pub(crate) mod rate;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;

pub use either::EitherBody;
use end::EndGuard;
pub(crate) use end::{BodyEnd, BodyObserver, stated_length};

pin_project! {
    /// The response body of [`RateLimit`](crate::RateLimit): that of the inner service, or the text of a rejection.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: EitherBody<B>,
        end: EndGuard,
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn inner(body: B) -> Self {
        Self { kind: EitherBody::Inner { body }, end: EndGuard::default() }
    }

    pub(crate) fn rejection(body: Full<Bytes>) -> Self {
        Self { kind: EitherBody::Rejection { body }, end: EndGuard::default() }
    }

    /// Sets the observer of the end of this body. `length` is the length that the headers of the response state, if they do.
    ///
    /// `B` need not be a [`Body`], as the response of a service need not have one. So the observer of a body without a frame is
    /// called when the body is dropped, after a server has asked whether it has any.
    pub(crate) fn observe(&mut self, length: Option<u64>, observer: Box<dyn BodyObserver>) {
        self.end = EndGuard::new(observer, length);
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::inner(B::default())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut this = self.project();
        let polled = this.kind.as_mut().poll_frame(cx);
        if this.end.is_active()
            && let Poll::Ready(frame) = &polled
        {
            let is_end_stream = this.kind.is_end_stream();
            this.end.polled(frame.as_ref(), is_end_stream);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let is_end_stream = self.kind.is_end_stream();
        self.end.asked(is_end_stream);
        is_end_stream
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}
