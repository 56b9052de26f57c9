//! Judges gRPC responses by the status in their trailers.

use http::{HeaderMap, Response, StatusCode};

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
