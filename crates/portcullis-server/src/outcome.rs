//! Whether rules have admitted a request, by the response to it.

use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// What the service behind the rules puts into its response, so that no rejection passes for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted;

/// The status with which the rules have rejected a request; `None` if they have admitted it. It is never 2xx.
pub(crate) fn rejection<B>(response: &mut Response<B>) -> Option<StatusCode> {
    let is_admitted = response.extensions_mut().remove::<Admitted>().is_some();
    (!is_admitted).then(|| rejected(response.status(), response.headers()))
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
