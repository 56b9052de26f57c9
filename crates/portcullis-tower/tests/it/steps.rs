//! A body of given frames.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};

/// A body of steps, which waits after the last one unless it is the end.
#[derive(Clone, Default)]
pub(crate) struct Steps(VecDeque<Step>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Data,
    /// With a status of gRPC.
    Trailers(Option<&'static str>),
    Error,
    End,
}

impl Steps {
    pub(crate) fn new(steps: &[Step]) -> Self {
        Self(steps.iter().copied().collect())
    }
}

impl Body for Steps {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let status = |status| ("grpc-status".parse().unwrap(), HeaderValue::from_static(status));
        match self.0.pop_front() {
            Some(Step::Data) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"row"))))),
            Some(Step::Trailers(code)) => {
                Poll::Ready(Some(Ok(Frame::trailers(code.map(status).into_iter().collect::<HeaderMap>()))))
            }
            Some(Step::Error) => Poll::Ready(Some(Err("broken"))),
            Some(Step::End) => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
