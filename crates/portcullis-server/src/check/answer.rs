//! What a proxy is answered.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::dialect::Dialect;

/// What the service behind the rules puts into its response, so that no rejection passes for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted;

/// The answer by what the layer has made of the request.
pub(super) fn verdict(dialect: Dialect, mut response: Response<Body>) -> Response<Body> {
    if response.extensions_mut().remove::<Admitted>().is_some() {
        return response;
    }
    with_status(dialect, rejected(response.status(), response.headers()), response)
}

/// The status of a rejection. One that is 2xx, as in gRPC or by a response of the program's own, would let the request pass.
fn rejected(status: StatusCode, headers: &HeaderMap) -> StatusCode {
    if !status.is_success() && !status.is_informational() {
        return status;
    }
    // Source: grpc.io, "Status codes and their use in gRPC".
    match headers.get("grpc-status").map(HeaderValue::as_bytes) {
        Some(b"3") => StatusCode::BAD_REQUEST,
        Some(b"7") => StatusCode::FORBIDDEN,
        Some(b"13") => StatusCode::INTERNAL_SERVER_ERROR,
        Some(b"14") => StatusCode::SERVICE_UNAVAILABLE,
        Some(b"16") => StatusCode::UNAUTHORIZED,
        _ => StatusCode::TOO_MANY_REQUESTS,
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
