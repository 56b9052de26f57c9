//! What a proxy is answered.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::dialect::Dialect;
use crate::outcome;

/// The answer by what the layer has made of the request.
pub(super) fn verdict(dialect: Dialect, mut response: Response<Body>) -> Response<Body> {
    match outcome::rejection(&mut response) {
        None => response,
        Some(status) => with_status(dialect, status, response),
    }
}

/// The answer to a request whose head is malformed.
pub(super) fn malformed(dialect: Dialect, is_of_client: bool, problem: &str) -> Response<Body> {
    let response = text(StatusCode::BAD_REQUEST, &format!("the forwarded request is malformed: {problem}"));
    if is_of_client { with_status(dialect, StatusCode::BAD_REQUEST, response) } else { response }
}

pub(super) fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Gives the response the status that the client is to get, in the way that the proxy understands.
fn with_status(dialect: Dialect, status: StatusCode, mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = status;
    if dialect.knows_few_statuses() {
        response.headers_mut().insert(&CHECK_STATUS, HeaderValue::from(status.as_u16()));
        if status != StatusCode::UNAUTHORIZED {
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        // nginx does not read the body, and would close the connection because of it.
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    response
}

/// The status that the client is to get, where nginx gets another. It is on no other response, such as that to a peer which is not trusted.
static CHECK_STATUS: HeaderName = HeaderName::from_static("x-check-status");
