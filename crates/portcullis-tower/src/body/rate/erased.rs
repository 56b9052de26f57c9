//! Bodies that can have another body inside of them, so that a layer need not change the type of its requests.

use std::any::{Any, TypeId};
use std::error::Error;

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;

use super::rated::Pace;
use super::{BodyRate, GrpcClaim, RatedBody};

/// Wraps the body of a request that is Axum's, Tonic's or [`UnsyncBoxBody`] with the error of these. Others stay as they are. Returns with it
/// the claim of the request to be a call of gRPC, if its body is wrapped.
#[inline]
pub fn rated<B: Body + 'static>(rate: BodyRate, parts: &Parts, body: B) -> (B, Option<GrpcClaim>) {
    let mut claim = None;
    let mut pace = || {
        let pace = rate.pace(parts)?;
        claim = pace.claim();
        Some(pace)
    };
    #[cfg(feature = "axum")]
    let body = wrap(body, &mut pace, |body, pace| axum::body::Body::new(RatedBody::new(body, Some(pace))));
    #[cfg(feature = "tonic")]
    let body = wrap(body, &mut pace, |body, pace| tonic::body::Body::new(RatedBody::new(body, Some(pace))));
    let body = wrap(body, &mut pace, |body, pace| Boxed::new(RatedBody::new(body, Some(pace))));
    (body, claim)
}

type Boxed = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Replaces a body if it has this type, and needs it. Which types are equal is known when this is compiled.
#[inline]
fn wrap<B: Body + 'static, T: 'static>(
    body: B,
    pace: impl FnOnce() -> Option<Pace>,
    with: impl FnOnce(T, Pace) -> T,
) -> B {
    if TypeId::of::<B>() != TypeId::of::<T>() || body.is_end_stream() {
        return body;
    }
    let Some(pace) = pace() else { return body };
    let mut body = Some(body);
    if let Some(body) = (&mut body as &mut dyn Any).downcast_mut::<Option<T>>() {
        *body = body.take().map(|body| with(body, pace));
    }
    body.expect("it was replaced by another one")
}
