//! Bodies that count what they use, and the end of the server, at which they end.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use portcullis::charge::Usage;
use tokio::sync::watch;

/// Whether the server is to stop. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.0.subscribe();
        async move {
            // The sender is never dropped before.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        }
    }
}

/// Counts units with its first frame, has no second one, and ends when a future does.
pub(crate) struct Stream {
    first: Option<(Usage, u64)>,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream {
    pub(crate) fn until(
        end: impl Future<Output = ()> + Send + 'static,
        usage: Usage,
        units: u64,
    ) -> axum::body::Body {
        axum::body::Body::new(Self { first: Some((usage, units)), end: Box::pin(end) })
    }

    /// Like [`until`](Self::until), but without any frame.
    pub(crate) fn empty_until(end: impl Future<Output = ()> + Send + 'static) -> axum::body::Body {
        axum::body::Body::new(Self { first: None, end: Box::pin(end) })
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some((usage, units)) = self.first.take() else {
            return self.end.as_mut().poll(cx).map(|()| None);
        };
        usage.add(units);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"token")))))
    }
}
