//! Fields that concern one connection, and are not forwarded.
//!
//! Source: RFC 9110, section 7.6.1; RFC 9112, section 6.1; RFC 9113, section 8.2.2.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use portcullis::rules::Door;
use portcullis_identity::matching::folded_header;

use super::{forwarded, remove_all};

/// Named by `Connection`, these are nevertheless forwarded: a client that names them wants to hide from the upstream what the proxy,
/// or a trusted one before it, has written, or to change what the message is.
const KEPT: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::AUTHORIZATION,
    header::VIA,
    header::COOKIE,
];

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The client accepts trailers.
    pub(crate) trailers: bool,
    /// The protocol of an upgrade to a web socket.
    pub(crate) is_websocket: bool,
}

/// A transfer coding that the proxy cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownCoding;

/// Removes the fields.
///
/// # Errors
///
/// If the body has a transfer coding other than `chunked`: without the field it could not be decoded.
pub(crate) fn remove(headers: &mut HeaderMap) -> Result<Removed, UnknownCoding> {
    remove_except(headers, |_| false)
}

/// Like [`remove`], but keeps fields that `Connection` names, as those that a trusted proxy has written.
///
/// # Errors
///
/// As above.
pub(crate) fn remove_except(
    headers: &mut HeaderMap,
    is_kept: impl Fn(&HeaderName) -> bool,
) -> Result<Removed, UnknownCoding> {
    let mut codings = tokens(headers, &header::TRANSFER_ENCODING);
    let is_known = codings.next().is_none_or(|coding| coding.eq_ignore_ascii_case("chunked"));
    let is_one = codings.next().is_none();
    drop(codings);
    if !is_known || !is_one {
        return Err(UnknownCoding);
    }
    if headers.get_all(header::TRANSFER_ENCODING).iter().any(|value| value.to_str().is_err()) {
        return Err(UnknownCoding);
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // The coding says where the body ends, and the length may say something else.
        headers.remove(header::CONTENT_LENGTH);
    }
    let is = |name, token: &str| tokens(headers, name).any(|found| found.eq_ignore_ascii_case(token));
    let removed = Removed {
        trailers: is(&header::TE, "trailers"),
        is_websocket: is(&header::CONNECTION, "upgrade") && is(&header::UPGRADE, "websocket"),
    };
    let named: Vec<HeaderName> =
        tokens(headers, &header::CONNECTION).filter_map(|name| name.parse().ok()).collect();
    let is_kept = |name: &HeaderName| KEPT.contains(name) || forwarded::is_forwarding(name) || is_kept(name);
    for name in named.iter().filter(|name| !is_kept(name)) {
        headers.remove(name);
    }
    remove_all(headers, |name| Door::Proxy.hides(name) || is_twin(name));
    Ok(removed)
}

/// Whether a field concerns the connection or the message, whatever the client says of it.
fn is_reserved(name: &HeaderName) -> bool {
    Door::Proxy.hides(name) || KEPT.contains(name)
}

/// Whether servers that take `_` for `-` take a name for a reserved one, such as `Content_Length` for the length.
fn is_twin(name: &HeaderName) -> bool {
    let folded = || HeaderName::from_bytes(&folded_header(name).collect::<Vec<_>>());
    name.as_str().contains('_') && folded().is_ok_and(|name| is_reserved(&name))
}

/// Removes from trailers what would mean something in the header section: an upstream may merge the two.
///
/// Source: RFC 9110, section 6.5.1.
pub(crate) fn clean_trailers(trailers: &mut HeaderMap) {
    remove_all(trailers, |name| is_reserved(name) || is_twin(name) || forwarded::is_forwarding(name));
}

/// Writes `Connection` and the fields that it names, for a request or response of HTTP/1.1.
pub(crate) fn write(headers: &mut HeaderMap, removed: &Removed, is_http2: bool) {
    if removed.trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if is_http2 {
        return;
    }
    if removed.is_websocket {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    } else if removed.trailers {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
}

/// The elements of a list, over all lines.
fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests;
