//! The bodies of responses.

mod stream;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

pub(super) use stream::{Held, ResponseStream};

/// The error of a body. It ends the connection, or the stream of HTTP/2.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response of the proxy: that of the upstream as it comes, or a short text.
#[derive(Debug)]
pub(super) struct ProxyBody(Kind);

#[derive(Debug)]
enum Kind {
    Full(Full<Bytes>),
    Stream(ResponseStream),
}

impl ProxyBody {
    pub(super) fn full(bytes: Bytes) -> Self {
        Self(Kind::Full(Full::new(bytes)))
    }

    pub(super) fn empty() -> Self {
        Self::full(Bytes::new())
    }

    pub(super) fn stream(stream: ResponseStream) -> Self {
        Self(Kind::Stream(stream))
    }
}

impl Default for ProxyBody {
    fn default() -> Self {
        Self::empty()
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().0 {
            Kind::Full(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Kind::Stream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(body) => body.is_end_stream(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(body) => body.size_hint(),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}
