//! The stream of snapshots.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body::Frame;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::access::Actor;
use crate::problem::Problem;
use crate::snapshot::snapshot;
use crate::state::AdminState;
use crate::state::stream_places::{MAX_STREAMS, Place};

/// Answers with a stream of snapshots, unless there are too many streams.
pub(crate) fn stream(state: Arc<AdminState>, actor: Actor) -> Response {
    let Some(place) = state.streams.take(actor) else {
        let detail = format!("{MAX_STREAMS} streams are open already, which is the limit");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
    };
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let snapshots = Snapshots { state, ticks, place };
    let mut response = Response::new(Body::new(snapshots));
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, ndjson);
    // A proxy that buffers would hold snapshots back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A snapshot per second, one on each line. A snapshot is made when the connection takes it, so a slow client gets fewer of them and none wait
/// in memory.
struct Snapshots {
    state: Arc<AdminState>,
    ticks: Interval,
    place: Place,
}

impl http_body::Body for Snapshots {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.ticks.poll_tick(cx));
        if !self.place.is_valid() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(line(&self.state)))))
    }
}

/// A snapshot as a line. Streams that want one at about the same time get the same one.
fn line(state: &AdminState) -> Bytes {
    let mut shared = state.last_line.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if let Some((made, line)) = &*shared
        && now.saturating_duration_since(*made) < SHARED_FOR
    {
        return line.clone();
    }
    let mut line = serde_json::to_vec(&snapshot(state)).unwrap_or_default();
    line.push(b'\n');
    let line = Bytes::from(line);
    *shared = Some((now, line.clone()));
    line
}

/// Half of the time between two snapshots of a stream.
const SHARED_FOR: Duration = Duration::from_millis(500);
