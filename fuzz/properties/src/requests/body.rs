//! Bodies with and without a known length, with data, trailers, or nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes as Data;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::bytes::Bytes;

/// A body whose hints are true, but may be incomplete.
#[derive(Clone, Debug)]
pub(super) struct AnyBody {
    frames: VecDeque<Kind>,
    /// Whether it reports its end.
    knows_end: bool,
    knows_length: bool,
    /// Whether its first frame is pending at first.
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data(u8),
    Trailers,
}

impl AnyBody {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let shape = bytes.byte();
        let mut frames = VecDeque::new();
        // Half of all bodies are empty.
        for _ in 0..(shape >> 4).saturating_sub(7) % 4 {
            let kind = bytes.byte();
            frames.push_back(if kind.is_multiple_of(4) { Kind::Trailers } else { Kind::Data(kind >> 2) });
        }
        let [knows_end, knows_length, is_late] = [1, 2, 4].map(|bit| shape & bit == 0);
        Self { frames, knows_end, knows_length, is_late: !is_late }
    }

    /// Whether it is empty and reports that.
    pub(super) fn is_provably_empty(&self) -> bool {
        self.frames.is_empty() && self.knows_end
    }
}

impl Body for AnyBody {
    type Data = Data;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Data>, Infallible>>> {
        if std::mem::take(&mut self.is_late) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = self.frames.pop_front().map(|kind| match kind {
            Kind::Data(length) => Frame::data(vec![b'x'; length.into()].into()),
            Kind::Trailers => Frame::trailers(HeaderMap::new()),
        });
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.is_provably_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if !self.knows_length {
            return SizeHint::new();
        }
        let length = |kind: &Kind| if let Kind::Data(length) = kind { u64::from(*length) } else { 0 };
        SizeHint::with_exact(self.frames.iter().map(length).sum())
    }
}
