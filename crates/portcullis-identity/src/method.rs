//! What a handler sees of the method of a request.

use http::Method;
use http::request::Parts;

/// The method whose handler answers a request: `GET` for `HEAD`, and for an extended `CONNECT`, with which a web socket begins over
/// HTTP/2. A plain `CONNECT` has no path. In any case, and otherwise as the request has it.
///
/// Source: RFC 9110, section 9.3.2; RFC 8441, section 4.
pub(crate) fn handling_method(parts: &Parts) -> &Method {
    let is_get = is_same(&parts.method, &Method::HEAD)
        || is_same(&parts.method, &Method::CONNECT) && !parts.uri.path().is_empty();
    if is_get { &Method::GET } else { &parts.method }
}

/// Whether a server may take the method of a request for this one: in another case, and that of the handler.
pub fn may_be(method: &Method, parts: &Parts) -> bool {
    is_same(&parts.method, method) || is_same(handling_method(parts), method)
}

/// Whether a server may take the first of two methods for the second one, whatever the path.
pub fn is_taken_for(method: &Method, other: &Method) -> bool {
    is_same(method, other) || is_same(method, &Method::HEAD) && is_same(other, &Method::GET)
}

/// Methods are case-sensitive, and some servers do not regard case.
///
/// Source: RFC 9110, section 9.1.
pub(crate) fn is_same(method: &Method, other: &Method) -> bool {
    method == other || method.as_str().eq_ignore_ascii_case(other.as_str())
}
