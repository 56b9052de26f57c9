//! Checks and normalises a request before it is charged, so that the limiter and the upstream see the same request.
//!
//! Source: RFC 9110, sections 7.2, 7.6 and 9.3; RFC 9112, sections 3.2 and 3.3; RFC 9113, sections 8.2.3 and 8.3.1; RFC 3986, sections 3.3
//! and 3.4.

use std::borrow::Cow;

use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::failure::Failure;
use crate::headers::hop_by_hop::{self, Removed};

const MAX_FORWARDS: HeaderName = header::MAX_FORWARDS;

/// The most proxies that a request may have passed.
const MAX_VIA: usize = 16;

/// What the client has written. An extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) removed: Removed,
    pub(crate) host: Option<HeaderValue>,
    pub(crate) version: Version,
    /// The path and query for the upstream, where the client has written bytes that no URI has.
    pub(crate) encoded: Option<PathAndQuery>,
}

/// Normalises a request. `pseudonym` is the name of this proxy in `Via`, and `is_trusted` whether rules believe a header of named proxies.
///
/// # Errors
///
/// If the request cannot be forwarded.
pub(crate) fn prepare(
    request: &mut Parts,
    pseudonym: &str,
    is_trusted: impl Fn(&HeaderName) -> bool,
) -> Result<Prepared, Failure> {
    match request.method {
        Method::CONNECT => return Err(Failure::NotImplemented("CONNECT is not forwarded")),
        Method::TRACE => return Err(Failure::NotImplemented("TRACE is not forwarded")),
        _ => {}
    }
    let host = host(request)?;
    if request.uri.path() == "*" {
        return Err(Failure::NotImplemented("OPTIONS * is not forwarded"));
    }
    if !request.uri.path().starts_with('/') {
        return Err(Failure::BadRequest("the request has no path"));
    }
    let encoded = encoded(&request.uri)?;
    if request.method == Method::OPTIONS {
        count_down(&mut request.headers)?;
    }
    if is_loop(&request.headers, pseudonym) {
        return Err(Failure::Loop);
    }
    let is_http1 = matches!(request.version, Version::HTTP_10 | Version::HTTP_11);
    let mut removed = hop_by_hop::remove_except(&mut request.headers, is_trusted)
        .map_err(|_| Failure::NotImplemented("a transfer coding other than chunked"))?;
    removed.is_websocket &= request.version == Version::HTTP_11 && request.method == Method::GET;
    if !is_http1 {
        join_cookies(&mut request.headers);
        join_lengths(&mut request.headers);
    }
    Ok(Prepared { removed, host, version: request.version, encoded })
}

/// The one host of the request. That of an absolute URI replaces the header, and over HTTP/2 the two have to be equal.
fn host(request: &mut Parts) -> Result<Option<HeaderValue>, Failure> {
    let mut lines = request.headers.get_all(header::HOST).iter();
    let (line, more) = (lines.next().cloned(), lines.next().is_some());
    if more {
        return Err(Failure::BadRequest("the request has several hosts"));
    }
    let Some(authority) = request.uri.authority() else {
        return match &line {
            None if request.version == Version::HTTP_10 => Ok(None),
            None => Err(Failure::BadRequest("the request has no host")),
            Some(host) if is_authority(host) => Ok(line),
            Some(_) => Err(Failure::BadRequest("the host is not one")),
        };
    };
    if authority.as_str().contains('@') {
        return Err(Failure::BadRequest("the host has a user"));
    }
    let is_http2 = request.version == Version::HTTP_2;
    if is_http2
        && line.is_some_and(|line| !line.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()))
    {
        return Err(Failure::BadRequest("the request has several hosts"));
    }
    let host = HeaderValue::from_str(authority.as_str()).expect("an authority is a header value");
    request.headers.insert(header::HOST, host.clone());
    Ok(Some(host))
}

/// The path and query with what no URI has in percent encoding, if there is any. Escapes that are there stay, malformed ones as well.
fn encoded(uri: &Uri) -> Result<Option<PathAndQuery>, Failure> {
    let written = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    match Cow::from(percent_encode(written.as_bytes(), IN_NO_URI)) {
        Cow::Borrowed(_) => Ok(None),
        Cow::Owned(encoded) => {
            let target = PathAndQuery::try_from(encoded).map_err(|_| Failure::BadRequest(TOO_LONG))?;
            Ok(Some(target))
        }
    }
}

/// Beside all bytes beyond ASCII.
const IN_NO_URI: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

const TOO_LONG: &str = "the path and query are too long in percent encoding";

/// An empty host is allowed for targets without one, which this proxy does not have.
fn is_authority(host: &HeaderValue) -> bool {
    !host.as_bytes().contains(&b'@') && Authority::try_from(host.as_bytes()).is_ok()
}

/// Reduces `Max-Forwards`, and refuses a request that may not be forwarded further.
fn count_down(headers: &mut HeaderMap) -> Result<(), Failure> {
    let Some(value) = headers.get(MAX_FORWARDS) else { return Ok(()) };
    let number = value.to_str().ok().and_then(|value| value.parse::<u32>().ok());
    match number.ok_or(Failure::BadRequest("Max-Forwards is not a number"))?.checked_sub(1) {
        Some(left) => headers.insert(MAX_FORWARDS, HeaderValue::from(left)),
        None => return Err(Failure::Loop),
    };
    Ok(())
}

/// Whether a request has passed this proxy, or too many.
fn is_loop(headers: &HeaderMap, pseudonym: &str) -> bool {
    let mut passed = 0;
    for line in headers.get_all(header::VIA) {
        // A comment may contain a comma; then there seem to be more proxies, and the bound is met earlier.
        for element in line.as_bytes().split(|byte| *byte == b',') {
            passed += 1;
            let mut words = element.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            if words.nth(1).is_some_and(|name| name == pseudonym.as_bytes()) {
                return true;
            }
        }
    }
    passed > MAX_VIA
}

/// Adds this proxy to `Via`.
pub(crate) fn add_via(headers: &mut HeaderMap, received: Version, pseudonym: &str) {
    let version = match received {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    let via = HeaderValue::from_str(&format!("{version} {pseudonym}"));
    headers.append(header::VIA, via.expect("a pseudonym is a token"));
}

/// Over HTTP/2 a client may split the field, and servers of HTTP/1.1 read one line.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&lines.join(&b"; "[..])).expect("parts of header values are one");
    headers.insert(header::COOKIE, joined);
}

/// A client of HTTP/2 may repeat the field; a server has refused values that differ.
fn join_lengths(headers: &mut HeaderMap) {
    if let Some(length) = headers.get(header::CONTENT_LENGTH).cloned() {
        headers.insert(header::CONTENT_LENGTH, length);
    }
}

#[cfg(test)]
mod tests;
