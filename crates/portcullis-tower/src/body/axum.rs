//! The body of a response as Axum's.

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;

use super::{EitherBody, ResponseBody};

/// What the inner service returned needs no box where it is Axum's body already and nothing waits for its end.
impl<B> From<ResponseBody<B>> for Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    #[inline]
    fn from(body: ResponseBody<B>) -> Self {
        if body.end.is_active() {
            return Self::new(body);
        }
        match body.kind {
            EitherBody::Inner { body } => Self::new(body),
            EitherBody::Rejection { body } => Self::new(body),
        }
    }
}
