//! Judges gRPC responses by the status in their trailers.

use http::{HeaderMap, Response, StatusCode, header};

use super::PendingOutcome;
use crate::body::{BodyEnd, BodyObserver};
use crate::response_outcome::ResponseOutcome;

struct TrailersObserver {
    pending: Box<PendingOutcome>,
    status: StatusCode,
    headers: HeaderMap,
    trailers: Option<HeaderMap>,
}

/// The observer that corrects a charge at the end of a body.
pub(super) fn observer<B>(pending: Box<PendingOutcome>, response: &Response<B>) -> Box<dyn BodyObserver> {
    let (status, headers) = (response.status(), response.headers().clone());
    Box::new(TrailersObserver { pending, status, headers, trailers: None })
}

/// The length of a body that the headers of its response state.
pub(crate) fn stated_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl BodyObserver for TrailersObserver {
    fn trailers(&mut self, trailers: &HeaderMap) {
        self.trailers = Some(trailers.clone());
    }

    fn ended(mut self: Box<Self>, end: BodyEnd) {
        let outcome = ResponseOutcome::new(self.status, &self.headers, self.trailers.as_ref());
        let is_known = end == BodyEnd::Complete && outcome.grpc_status().is_some();
        self.pending.correct_in_background(is_known.then_some(&outcome));
    }
}
