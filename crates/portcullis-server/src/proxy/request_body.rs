//! The body of a request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::activity::Activity;
use super::hop_by_hop;
use super::settings::Place;

/// The body of a request, as it comes from the client.
#[derive(Debug)]
pub(super) struct RequestBody {
    incoming: Incoming,
    activity: Arc<Activity>,
    /// Until it ends: an upstream may respond before, and still be sent the rest.
    place: Option<Place>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, activity: Arc<Activity>, place: Place) -> Self {
        if incoming.is_end_stream() {
            activity.sent();
            return Self { incoming, activity, place: None };
        }
        Self { incoming, activity, place: Some(place) }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut polled = Pin::new(&mut self.incoming).poll_frame(cx);
        let has_ended = self.incoming.is_end_stream();
        self.activity.awaits_client(polled.is_pending());
        match &mut polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    hop_by_hop::clean_trailers(trailers);
                }
                self.activity.progress();
                if has_ended {
                    self.activity.sent();
                    self.place = None;
                }
            }
            Poll::Ready(Some(Err(_))) => self.activity.broken(),
            Poll::Ready(None) => {
                self.activity.sent();
                self.place = None;
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
