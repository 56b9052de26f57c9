//! The place of a request with the upstream.

use std::sync::{Arc, Mutex, PoisonError};

use portcullis_server::listener;

/// The place of one request with the upstream. It is free once nothing of the request and its response is left.
pub(crate) type Place = Arc<RequestPlace>;

/// What a request holds as long as its stream may be open: the connection counts them.
pub(crate) type Stream = Arc<()>;

#[derive(Debug)]
pub(crate) struct RequestPlace {
    _place: listener::Place,
    /// Of a connection of HTTP/2, once the request has one.
    stream: Mutex<Option<Stream>>,
}

impl RequestPlace {
    pub(crate) fn new(place: listener::Place) -> Self {
        Self { _place: place, stream: Mutex::default() }
    }

    /// Counts the stream of the request as open until the place is free, in place of a former one.
    pub(crate) fn keep(&self, stream: Stream) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }
}
