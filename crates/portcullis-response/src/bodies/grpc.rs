//! Rejections in gRPC: trailers-only responses, the only form that clients read as a status and may retry.
//!
//! Source: gRPC over HTTP2, "Responses"; gRFC A6, "Pushback"; gRPC Web, "Protocol differences".

mod details;
mod rejection;

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use super::USUAL_HEADERS;
use crate::Rejection;
use crate::fields::values;
use crate::headers::{GRPC_MESSAGE, GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS, GRPC_STATUS_DETAILS};
use portcullis_engine::Reason;
pub use rejection::{CustomGrpc, GrpcCode, GrpcRejection};

pub(crate) fn response(
    rejection: &Rejection<'_>,
    content_type: HeaderValue,
    change: Option<&CustomGrpc>,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.reserve(USUAL_HEADERS);
    let (mut code, mut text) = (code(rejection.reason()), rejection.message());
    if let Some(change) = change {
        let mut changed = GrpcRejection::new(code, text.into_owned());
        change(rejection, &mut changed);
        (code, text) = (changed.code, changed.message.into());
        *headers = changed.headers;
    }
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(&GRPC_STATUS, values::number(u64::from(code as u8)));
    headers.insert(&GRPC_MESSAGE, message(&text));
    if let Some(details) = details::header(code as u8, &text, rejection) {
        headers.insert(&GRPC_STATUS_DETAILS, details);
    }
    if let Some(wait) = rejection.retry_after() {
        headers.insert(&GRPC_RETRY_PUSHBACK_MS, pushback(wait));
    }
    response
}

/// Milliseconds, rounded up, at least 1. The field is a 32-bit integer; a negative number, which tells clients not to retry,
/// stands for longer waits.
fn pushback(wait: Duration) -> HeaderValue {
    match u64::try_from(wait.as_nanos().div_ceil(1_000_000).max(1)) {
        Ok(millis @ ..=MAX_MILLIS) => values::number(millis),
        _ => HeaderValue::from_static("-1"),
    }
}

const MAX_MILLIS: u64 = i32::MAX as u64;

/// The status code.
///
/// Source: grpc.io, "Status codes and their use in gRPC".
fn code(reason: Reason) -> GrpcCode {
    match reason {
        Reason::NeverFits | Reason::BadIdentity => GrpcCode::InvalidArgument,
        Reason::Denied => GrpcCode::PermissionDenied,
        Reason::Limited | Reason::Blocked | Reason::Unsettled => GrpcCode::ResourceExhausted,
        Reason::Misconfigured => GrpcCode::Internal,
        Reason::Unauthenticated => GrpcCode::Unauthenticated,
        _ => GrpcCode::Unavailable,
    }
}

/// Percent-encodes everything except printable ASCII, and `%`.
fn message(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("writing to a string does not fail"),
        }
    }
    HeaderValue::try_from(encoded).expect("printable ASCII is a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pushback_is_rounded_up_and_bounded() {
        for (nanos, expected) in [(0, "1"), (1, "1"), (1_000_000, "1"), (1_000_001, "2")] {
            assert_eq!(pushback(Duration::from_nanos(nanos)), expected);
        }
        assert_eq!(pushback(Duration::from_millis(2_147_483_647)), "2147483647");
        for wait in [Duration::from_millis(2_147_483_648), Duration::MAX] {
            assert_eq!(pushback(wait), "-1");
        }
    }

    #[test]
    fn a_message_is_percent_encoded() {
        assert_eq!(message("100 %\u{e9}\r\n~"), "100 %25%C3%A9%0D%0A~");
        assert_eq!(message(""), "");
    }
}
