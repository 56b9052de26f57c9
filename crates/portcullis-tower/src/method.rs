//! What a handler sees of the method of a request.

use http::Method;
use http::request::Parts;

/// The method whose handler answers a request: `GET` for `HEAD`, and for an extended `CONNECT`, with which a web socket begins over
/// HTTP/2. A plain `CONNECT` has no path.
///
/// Source: RFC 9110, section 9.3.2; RFC 8441, section 4.
pub fn handling_method(parts: &Parts) -> &Method {
    let is_get =
        parts.method == Method::HEAD || parts.method == Method::CONNECT && !parts.uri.path().is_empty();
    if is_get { &Method::GET } else { &parts.method }
}
