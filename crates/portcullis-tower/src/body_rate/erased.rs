//! Bodies that can have another body inside of them, so that a layer need not change the type of its requests.

use std::any::Any;
use std::error::Error;

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;

use super::{BodyRate, RatedBody, is_exempt};

/// Wraps the body of a request that is Axum's, Tonic's or [`UnsyncBoxBody`] with the error of these. Others stay as they are.
#[inline]
pub(crate) fn rated<B: Body + 'static>(rate: BodyRate, parts: &Parts, body: B) -> B {
    if body.is_end_stream() || is_exempt(parts) {
        return body;
    }
    let mut body = Some(body);
    #[cfg(feature = "axum")]
    wrap(&mut body, |body: axum::body::Body| axum::body::Body::new(RatedBody::new(body, Some(rate))));
    #[cfg(feature = "tonic")]
    wrap(&mut body, |body: tonic::body::Body| tonic::body::Body::new(RatedBody::new(body, Some(rate))));
    wrap(&mut body, |body: Boxed| Boxed::new(RatedBody::new(body, Some(rate))));
    body.expect("it was replaced by another one")
}

type Boxed = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Replaces a body if it has this type.
fn wrap<B: 'static, T: 'static>(body: &mut Option<B>, with: impl FnOnce(T) -> T) {
    if let Some(body) = (body as &mut dyn Any).downcast_mut::<Option<T>>() {
        *body = body.take().map(with);
    }
}
