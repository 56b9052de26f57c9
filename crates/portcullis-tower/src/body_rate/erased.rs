//! Bodies that can have another body inside of them, so that a layer need not change the type of its requests.

use std::any::{Any, TypeId};
use std::error::Error;

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;

use super::{BodyRate, RatedBody, is_exempt};

/// Wraps the body of a request that is Axum's, Tonic's or [`UnsyncBoxBody`] with the error of these. Others stay as they are.
#[inline]
pub(crate) fn rated<B: Body + 'static>(rate: BodyRate, parts: &Parts, body: B) -> B {
    let needs_none = |body: &B| body.is_end_stream() || is_exempt(parts);
    #[cfg(feature = "axum")]
    let body = wrap(body, needs_none, |body| axum::body::Body::new(RatedBody::new(body, Some(rate))));
    #[cfg(feature = "tonic")]
    let body = wrap(body, needs_none, |body| tonic::body::Body::new(RatedBody::new(body, Some(rate))));
    wrap(body, needs_none, |body| Boxed::new(RatedBody::new(body, Some(rate))))
}

type Boxed = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Replaces a body if it has this type, and needs it. Which types are equal is known when this is compiled.
#[inline]
fn wrap<B: 'static, T: 'static>(body: B, needs_none: impl Fn(&B) -> bool, with: impl FnOnce(T) -> T) -> B {
    if TypeId::of::<B>() != TypeId::of::<T>() || needs_none(&body) {
        return body;
    }
    let mut body = Some(body);
    if let Some(body) = (&mut body as &mut dyn Any).downcast_mut::<Option<T>>() {
        *body = body.take().map(with);
    }
    body.expect("it was replaced by another one")
}
