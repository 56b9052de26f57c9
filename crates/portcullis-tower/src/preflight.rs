//! The requests that browsers send on their own.

use std::any::Any;

use http::request::Parts;
use http::{Method, header};

/// Whether a request is one that a browser sends on its own before that of a script: it has no credentials and no body,
/// and cannot be answered 429.
///
/// Whoever runs what an `OPTIONS` request asks for would run it uncounted. So nothing that could be a body is let by, and
/// under Tonic, which looks at no method, nothing at all.
///
/// Source: Fetch, "CORS-preflight fetch".
pub(crate) fn is_preflight<B: 'static>(parts: &Parts, body: &B) -> bool {
    let headers = &parts.headers;
    parts.method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && !headers.contains_key(header::CONTENT_TYPE)
        && !headers.contains_key(header::TRANSFER_ENCODING)
        && headers.get_all(header::CONTENT_LENGTH).iter().all(|length| length == "0")
        && carries_nothing(body)
}

fn carries_nothing(body: &dyn Any) -> bool {
    #[cfg(feature = "tonic")]
    if body.is::<tonic::body::Body>() {
        return false;
    }
    #[cfg(feature = "axum")]
    if let Some(body) = body.downcast_ref::<axum::body::Body>() {
        return http_body::Body::is_end_stream(body);
    }
    // Of a body that nobody knows the headers have to do.
    let _ = body;
    true
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn preflight(more: &[(&str, &str)]) -> Parts {
        let mut request = Request::options("/");
        request =
            request.header("origin", "https://a.example").header("access-control-request-method", "PUT");
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn what_has_a_body_is_no_preflight() {
        assert!(is_preflight(&preflight(&[]), &()));
        assert!(is_preflight(&preflight(&[("content-length", "0")]), &()));
        for header in [
            ("content-type", "application/grpc"),
            ("content-length", "5"),
            ("content-length", "00"),
            ("transfer-encoding", "chunked"),
        ] {
            assert!(!is_preflight(&preflight(&[header]), &()), "{header:?}");
        }
    }

    #[cfg(feature = "axum")]
    #[test]
    fn a_body_without_a_length_is_seen_all_the_same() {
        assert!(is_preflight(&preflight(&[]), &axum::body::Body::empty()));
        assert!(!is_preflight(&preflight(&[]), &axum::body::Body::from("x")));
    }

    #[cfg(feature = "tonic")]
    #[test]
    fn tonic_runs_whatever_the_method_is_so_that_nothing_is_let_by() {
        assert!(!is_preflight(&preflight(&[]), &tonic::body::Body::empty()));
    }
}
