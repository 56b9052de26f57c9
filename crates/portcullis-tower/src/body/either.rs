//! The body of the inner service, or that of a rejection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;

pin_project! {
    /// Either body. The text of a rejection never fails.
    #[project = EitherProjection]
    #[derive(Debug)]
    #[expect(missing_docs, reason = "fields cannot have docs in this macro")]
    pub enum EitherBody<B> {
        Inner { #[pin] body: B },
        Rejection { #[pin] body: Full<Bytes> },
    }
}

impl<B: Body<Data = Bytes>> Body for EitherBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project() {
            EitherProjection::Inner { body } => body.poll_frame(cx),
            EitherProjection::Rejection { body } => body.poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Inner { body } => body.is_end_stream(),
            Self::Rejection { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Inner { body } => body.size_hint(),
            Self::Rejection { body } => body.size_hint(),
        }
    }
}
