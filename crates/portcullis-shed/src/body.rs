//! The body of a response, which holds the permit of its request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;
use portcullis_tower::internal::EitherBody;

use crate::config::Permit;

pin_project! {
    /// The response body of [`Shed`](crate::Shed): that of the inner service, or the text of a rejection.
    ///
    /// The request is in flight until the body has ended or is dropped.
    #[derive(Debug)]
    pub struct ShedBody<B> {
        #[pin]
        kind: EitherBody<B>,
        permit: Option<Permit>,
    }
}

impl<B> ShedBody<B> {
    pub(crate) fn inner(body: B, permit: Option<Permit>) -> Self {
        Self { kind: EitherBody::Inner { body }, permit }
    }

    pub(crate) fn rejection(body: Full<Bytes>) -> Self {
        Self { kind: EitherBody::Rejection { body }, permit: None }
    }
}

impl<B: Default> Default for ShedBody<B> {
    fn default() -> Self {
        Self::inner(B::default(), None)
    }
}

impl<B: Body<Data = Bytes>> Body for ShedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.kind.as_mut().poll_frame(cx));
        // A server need not poll again after the last frame, and may keep the body until the client has read it.
        let goes_on = matches!(&frame, Some(Ok(frame)) if !frame.is_trailers());
        if this.permit.is_some() && (!goes_on || this.kind.is_end_stream()) {
            *this.permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}
