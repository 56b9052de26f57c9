//! Rejections in gRPC: trailers-only responses, the only form that clients read as a status and may retry.
//!
//! Source: gRPC over HTTP2, "Responses"; gRFC A6, "Pushback"; gRPC Web, "Protocol differences".

mod details;

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, header};

use super::{Rejection, USUAL_HEADERS, values};
use crate::Reason;
use crate::headers::{GRPC_MESSAGE, GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS, GRPC_STATUS_DETAILS};

/// The content type of the response to a gRPC request, which contains no bytes from the client. A request is gRPC only if it is
/// a POST, so that a `Content-Type` on another method does not turn a 429 into a 200.
///
/// Source: gRPC over HTTP2, "Requests"; gRPC Web, "Protocol differences".
pub(super) fn content_type(request: &Parts) -> Option<HeaderValue> {
    if request.method != Method::POST {
        return None;
    }
    let value = request.headers.get(header::CONTENT_TYPE)?.as_bytes();
    let is = |flavour: &&str| {
        value.split_at_checked(flavour.len()).is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(flavour.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';'))
        })
    };
    FLAVOURS.into_iter().find(is).map(HeaderValue::from_static)
}

pub(super) fn response(rejection: &Rejection<'_>, content_type: HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.reserve(USUAL_HEADERS);
    let (code, text) = (code(rejection.reason()), rejection.message());
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(&GRPC_STATUS, values::number(code.into()));
    headers.insert(&GRPC_MESSAGE, message(&text));
    if let Some(details) = details::header(code, &text, rejection) {
        headers.insert(&GRPC_STATUS_DETAILS, details);
    }
    if let Some(wait) = rejection.wait() {
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
fn code(reason: Reason) -> u8 {
    match reason {
        Reason::NeverFits | Reason::BadIdentity => 3,
        Reason::Denied => 7,
        Reason::Limited | Reason::Blocked | Reason::Unsettled => 8,
        Reason::Misconfigured => 13,
        Reason::Unauthenticated => 16,
        _ => 14,
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

const FLAVOURS: [&str; 3] = ["application/grpc", "application/grpc-web", "application/grpc-web-text"];

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

    #[test]
    fn grpc_is_a_post_with_a_grpc_content_type() {
        let parts = |method: &str, value: &'static str| {
            let request = http::Request::builder().method(method).header(header::CONTENT_TYPE, value);
            request.body(()).unwrap().into_parts().0
        };
        for (value, answer) in [
            ("application/grpc", Some("application/grpc")),
            ("application/grpc+proto", Some("application/grpc")),
            ("Application/gRPC;x=<script>", Some("application/grpc")),
            ("application/grpc-web", Some("application/grpc-web")),
            ("application/grpc-web+proto", Some("application/grpc-web")),
            ("application/grpc-web-text+proto", Some("application/grpc-web-text")),
            ("application/grpc-web;x=y", Some("application/grpc-web")),
            ("application/grpc-web-text", Some("application/grpc-web-text")),
            ("application/grpc-web-text;x=y", Some("application/grpc-web-text")),
            ("application/grpc-webinar", None),
            ("application/grpc-web-", None),
            ("application/grpc-web-textual", None),
            ("application/grpc-other", None),
            ("application/grpcish", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(content_type(&parts("POST", value)), answer.map(HeaderValue::from_static), "{value}");
            for method in ["GET", "HEAD", "PUT", "OPTIONS", "CONNECT", "post"] {
                assert_eq!(content_type(&parts(method, value)), None, "{method} {value}");
            }
        }
        assert_eq!(content_type(&http::Request::post("/").body(()).unwrap().into_parts().0), None);
    }
}
