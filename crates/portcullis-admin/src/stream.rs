//! The stream of snapshots.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::IntervalStream;

use crate::access::Actor;
use crate::problem::Problem;
use crate::snapshot::snapshot;
use crate::state::AdminState;
use crate::state::stream_places::MAX_STREAMS;

/// Answers with a stream of a snapshot per second, one on each line, unless there are too many streams. A snapshot is made when the connection
/// takes it, so a slow client gets fewer of them and none wait in memory.
pub(crate) fn stream(state: Arc<AdminState>, actor: Actor) -> Response {
    let Some(place) = state.streams.take(actor) else {
        let detail = format!("{MAX_STREAMS} streams are open already, which is the limit");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
    };
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let snapshots = IntervalStream::new(ticks)
        .map_while(move |_| place.is_valid().then(|| Ok::<_, Infallible>(line(&state))));
    let mut response = Response::new(Body::from_stream(snapshots));
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, ndjson);
    // A proxy that buffers would hold snapshots back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
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
