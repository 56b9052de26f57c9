//! Refusals in plain HTTP.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::{Kind, Refusal};

pub(super) fn response(refusal: Refusal<'_>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(refusal.text().into_owned() + "\n")));
    *response.status_mut() = match refusal.kind() {
        Kind::TryLater => StatusCode::TOO_MANY_REQUESTS,
        Kind::BadRequest => StatusCode::BAD_REQUEST,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Refusal::NoKey(error) = refusal
        && let Some(challenge) = error.challenge()
    {
        headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    response
}
