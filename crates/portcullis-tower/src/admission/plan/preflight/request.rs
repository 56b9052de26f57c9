//! Recognizes CORS preflights by method, headers and body.

use http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, ORIGIN,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use http_body::Body;

/// Whether a request is one that a browser sends before the request of a script.
///
/// A server that executes the call named by an `OPTIONS` request, such as Tonic, executes it with the request's body. So the
/// body has to report its end; a request with a body of unknown length is not a preflight. Headers alone prove nothing, because
/// HTTP/2 needs none to send a body.
///
/// Source: Fetch, "CORS-preflight fetch".
pub(crate) fn is_preflight(parts: &Parts, body: &impl Body) -> bool {
    let headers = &parts.headers;
    parts.method == Method::OPTIONS
        && has_one_value(headers, &ORIGIN)
        && has_one_value(headers, &ACCESS_CONTROL_REQUEST_METHOD)
        && !headers.contains_key(CONTENT_TYPE)
        && !headers.contains_key(TRANSFER_ENCODING)
        && headers.get_all(CONTENT_LENGTH).iter().all(|length| length == "0")
        && body.is_end_stream()
}

/// Whether a request has a field that browsers omit from every preflight, and that could contain a guess.
pub(crate) fn has_credentials(headers: &HeaderMap) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].iter().any(|name| headers.contains_key(name))
}

fn has_one_value(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    values.next().is_some_and(|value| !value.as_bytes().trim_ascii().is_empty()) && values.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http::Request;
    use http_body::Frame;
    use http_body_util::{Empty, Full, Limited};

    use super::*;

    fn parts(method: Method, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn with(more: &[(&str, &str)]) -> Parts {
        parts(Method::OPTIONS, &[&PREFLIGHT, more].concat())
    }

    const PREFLIGHT: [(&str, &str); 2] =
        [("origin", "https://a.example"), ("access-control-request-method", "PUT")];

    /// A body that does not report its end.
    struct Unknown;

    impl Body for Unknown {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }
    }

    #[test]
    fn both_fields_are_required_once_with_a_value() {
        let empty = Empty::<Bytes>::new();
        assert!(is_preflight(&with(&[]), &empty));
        assert!(!is_preflight(&parts(Method::GET, &PREFLIGHT), &empty));
        let [origin, method] = PREFLIGHT;
        for headers in [
            &[origin][..],
            &[method],
            &[("origin", ""), method],
            &[("origin", " \t"), method],
            &[origin, ("access-control-request-method", "")],
            &[origin, origin, method],
            &[origin, method, method],
        ] {
            assert!(!is_preflight(&parts(Method::OPTIONS, headers), &empty), "{headers:?}");
        }
    }

    #[test]
    fn headers_that_announce_a_body_exclude_a_preflight() {
        let empty = Empty::<Bytes>::new();
        assert!(is_preflight(&with(&[("content-length", "0")]), &empty));
        for header in [
            ("content-type", "application/grpc"),
            ("content-length", "5"),
            ("content-length", "00"),
            ("transfer-encoding", "chunked"),
        ] {
            assert!(!is_preflight(&with(&[header]), &empty), "{header:?}");
        }
    }

    #[test]
    fn a_body_must_report_its_end() {
        assert!(is_preflight(&with(&[]), &String::new()));
        assert!(is_preflight(&with(&[]), &Limited::new(Full::<Bytes>::default(), 9)));
        assert!(!is_preflight(&with(&[]), &String::from("x")));
        assert!(!is_preflight(&with(&[]), &Limited::new(Full::<Bytes>::from("x"), 9)));
        assert!(!is_preflight(&with(&[]), &Unknown));
    }

    #[test]
    fn credentials_are_detected_by_field_name() {
        assert!(!has_credentials(&with(&[]).headers));
        for header in [("authorization", ""), ("proxy-authorization", "Basic YTpi"), ("cookie", "a=b")] {
            assert!(has_credentials(&with(&[header]).headers), "{header:?}");
        }
    }
}
