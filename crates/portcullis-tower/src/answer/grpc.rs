//! Refusals in gRPC: trailers-only responses, the one form that clients see as a status and may retry.
//!
//! Source: gRPC over HTTP2, "Responses"; gRFC A6, "Pushback".

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use http_body_util::Full;

use super::{Kind, Refusal};

/// The content type to answer a gRPC request with: none of the client's bytes come back.
pub(super) fn content_type(request: &HeaderMap) -> Option<HeaderValue> {
    let value = request.get(header::CONTENT_TYPE)?;
    let (start, flavour) = value.as_bytes().split_at_checked(GRPC.len())?;
    if !start.eq_ignore_ascii_case(GRPC.as_bytes()) {
        return None;
    }
    match flavour.first() {
        None | Some(b'+' | b';') => Some(HeaderValue::from_static(GRPC)),
        Some(b'-') if flavour.get(..4).is_some_and(|web| web.eq_ignore_ascii_case(b"-web")) => {
            Some(HeaderValue::from_static("application/grpc-web"))
        }
        Some(_) => None,
    }
}

pub(super) fn response(refusal: Refusal<'_>, content_type: HeaderValue) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(&GRPC_STATUS, HeaderValue::from(code(refusal.kind())));
    headers.insert(&GRPC_MESSAGE, message(&refusal.text()));
    if let Some(wait) = refusal.wait() {
        let millis = wait.as_nanos().div_ceil(1_000_000).max(1);
        // The field is a 32-bit integer; what is longer is not worth a retry, and a negative number says so.
        let pushback = i32::try_from(millis).unwrap_or(-1);
        headers.insert(&GRPC_RETRY_PUSHBACK_MS, HeaderValue::from(pushback));
    }
    response
}

/// The status code.
///
/// Source: grpc.io, "Status codes and their use in gRPC".
fn code(kind: Kind) -> u16 {
    match kind {
        Kind::BadRequest => 3,
        Kind::TryLater => 8,
        Kind::Misconfigured => 13,
        Kind::Unavailable => 14,
        Kind::Unauthenticated => 16,
    }
}

/// The text with everything percent-encoded but printable ASCII, and `%` itself.
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

const GRPC: &str = "application/grpc";
static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_percent_encoded() {
        assert_eq!(message("100 %\u{e9}\r\n~"), "100 %25%C3%A9%0D%0A~");
        assert_eq!(message(""), "");
    }

    #[test]
    fn grpc_is_told_by_its_content_type() {
        for (value, answer) in [
            ("application/grpc", Some("application/grpc")),
            ("application/grpc+proto", Some("application/grpc")),
            ("Application/gRPC;x=<script>", Some("application/grpc")),
            ("application/grpc-web-text", Some("application/grpc-web")),
            ("application/grpc-other", None),
            ("application/grpcish", None),
            ("application/json", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(content_type(&headers), answer.map(HeaderValue::from_static), "{value}");
        }
        assert_eq!(content_type(&HeaderMap::new()), None);
    }
}
