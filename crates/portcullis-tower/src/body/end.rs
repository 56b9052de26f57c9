//! Observes how the body of a response ends.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Frame;

/// Gets the trailers of a response body and its end.
///
/// It is called where the body is polled or dropped, so it neither blocks nor panics.
pub(crate) trait BodyObserver: Send + Sync {
    /// Called with the bytes of each frame of data.
    #[cfg(feature = "usage")]
    fn data(&mut self, _data: &[u8]) {}

    /// Called with the trailers, if the body has some, before [`ended`](Self::ended).
    fn trailers(&mut self, _trailers: &HeaderMap) {}

    /// Called exactly once.
    fn ended(self: Box<Self>, end: BodyEnd);
}

/// The length of a body that the headers of its response state.
pub(crate) fn stated_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// The server took its last frame, or it has none.
    Complete,
    /// It was dropped before its last frame.
    Dropped,
    /// It returned an error.
    Failed,
}

/// The observer of one body. Without one it is a null pointer.
#[derive(Default)]
pub(super) struct EndGuard(Option<Box<Observed>>);

struct Observed {
    observer: Box<dyn BodyObserver>,
    /// How many bytes are missing until the length that the headers state, if they state one.
    missing: Option<u64>,
    /// Whether the body has reported that it has no frame left.
    is_over: AtomicBool,
}

impl EndGuard {
    /// `length` is the length that the headers state.
    pub(super) fn new(observer: Box<dyn BodyObserver>, length: Option<u64>) -> Self {
        Self(Some(Box::new(Observed { observer, missing: length, is_over: false.into() })))
    }

    /// Notices that the body reports whether it has no frame left. A server that learns so does not poll it.
    pub(super) fn asked(&self, is_end_stream: bool) {
        if let Some(observed) = &self.0
            && is_end_stream
        {
            observed.is_over.store(true, Relaxed);
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Notices what the body returned when it was polled, and whether it has no frame after that.
    pub(super) fn polled<E>(&mut self, frame: Option<&Result<Frame<Bytes>, E>>, is_end_stream: bool) {
        let Some(observed) = &mut self.0 else { return };
        match frame {
            None => self.end(BodyEnd::Complete),
            Some(Err(_)) => self.end(BodyEnd::Failed),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    #[cfg(feature = "usage")]
                    observed.observer.data(data);
                    let len = u64::try_from(data.len()).unwrap_or(u64::MAX);
                    observed.missing = observed.missing.map(|missing| missing.saturating_sub(len));
                }
                if let Some(trailers) = frame.trailers_ref() {
                    observed.observer.trailers(trailers);
                }
                // A server need not poll again then: hyper does not.
                if frame.is_trailers() || is_end_stream {
                    self.end(BodyEnd::Complete);
                }
            }
        }
    }

    fn end(&mut self, end: BodyEnd) {
        if let Some(observed) = self.0.take() {
            observed.observer.ended(end);
        }
    }
}

/// A server drops a body without polling it again once it took as many bytes as `Content-Length` states.
impl Drop for EndGuard {
    fn drop(&mut self) {
        let Some(observed) = &self.0 else { return };
        let is_complete = observed.missing == Some(0) || observed.is_over.load(Relaxed);
        self.end(if is_complete { BodyEnd::Complete } else { BodyEnd::Dropped });
    }
}

impl fmt::Debug for EndGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndGuard").field(&self.is_active()).finish()
    }
}

#[cfg(test)]
mod tests;
