//! The body of a request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use portcullis::SlowBody;
use portcullis::rules::Rules;
use portcullis_server::listener::ClientBody;

use super::activity::Activity;
use super::place::Place;
use crate::headers::{hop_by_hop, trusted};

/// The error of a body. It ends the connection, or the stream of HTTP/2.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, as it comes from the client.
#[derive(Debug)]
pub(crate) struct RequestBody {
    body: ClientBody,
    activity: Arc<Activity>,
    /// Until it ends: an upstream may respond before, and still be sent the rest.
    place: Option<Place>,
    /// Where they believe headers, which trailers may not be taken for.
    rules: Option<Rules>,
}

impl RequestBody {
    pub(crate) fn new(body: ClientBody, activity: Arc<Activity>, place: Place, rules: Rules) -> Self {
        if body.is_end_stream() {
            activity.sent();
            return Self { body, activity, place: None, rules: None };
        }
        let rules = Some(rules).filter(|rules| rules.trusted_headers().next().is_some());
        Self { body, activity, place: Some(place), rules }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        let has_ended = self.body.is_end_stream();
        self.activity.awaits_client(polled.is_pending());
        match &mut polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    hop_by_hop::clean_trailers(trailers);
                    if let Some(rules) = &self.rules {
                        trusted::clean(trailers, rules, false);
                    }
                }
                self.activity.progress();
                if has_ended {
                    self.activity.sent();
                    self.place = None;
                }
            }
            Poll::Ready(Some(Err(error))) if error.is::<SlowBody>() => self.activity.slow(),
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
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
