//! The client's request, from the headers of a proxy.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use percent_encoding::{AsciiSet, percent_encode};
use portcullis::rules::Door;

use super::dialect::Dialect;

/// What is wrong with a forwarded value. It shows no value of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", canonical(.header))]
pub(super) struct Malformed {
    header: HeaderName,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("missing")]
    Missing,
    #[error("more than one line")]
    Repeated,
    #[error("not a method")]
    Method,
    #[error("not a path with a query")]
    Uri,
    #[error("not a host")]
    Host,
    #[error("not an address")]
    Address,
}

impl Malformed {
    /// Whether a client can cause it, so that the proxy need not be misconfigured.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(self.problem, Problem::Method | Problem::Uri | Problem::Host)
    }
}

/// Makes the client's request, as it came to the proxy: with the client, or another proxy in front of this one, as its peer. Nothing of
/// the proxy's own request remains except the headers, which are those of the client.
pub(super) fn client_request(dialect: Dialect, mut headers: HeaderMap) -> Result<Request<Body>, Malformed> {
    let names = dialect.names();
    let method = take(&mut headers, &names.method)?;
    let uri = take(&mut headers, &names.uri)?;
    let host = take(&mut headers, &names.host)?;
    let addresses = take(&mut headers, &names.address)?;

    let malformed = |header: &HeaderName, problem| Malformed { header: header.clone(), problem };
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| malformed(&names.method, Problem::Method))?;
    let uri = target(&method, &uri).ok_or_else(|| malformed(&names.uri, Problem::Uri))?;
    if !is_host(&host) {
        return Err(malformed(&names.host, Problem::Host));
    }
    let address =
        if dialect.appends_address() { last(&addresses) } else { Some((addresses.as_bytes(), None)) };
    let (peer, before) = address
        .and_then(|(last, before)| Some((address_of(last)?, before)))
        .ok_or_else(|| malformed(&names.address, Problem::Address))?;

    // Fields of the connection and the body of the check.
    let hidden: Vec<_> = headers.keys().filter(|name| Door::Check.hides(name)).cloned().collect();
    for name in &hidden {
        headers.remove(name);
    }
    headers.insert(HOST, host);
    if let Some(before) = before {
        headers.insert(&names.address, before);
    }
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 0)));
    Ok(request)
}

/// Removes the one line of a header.
fn take(headers: &mut HeaderMap, name: &HeaderName) -> Result<HeaderValue, Malformed> {
    let problem = match headers.get_all(name).iter().count() {
        0 => Some(Problem::Missing),
        1 => None,
        _ => Some(Problem::Repeated),
    };
    match (problem, headers.remove(name)) {
        (None, Some(value)) => Ok(value),
        (problem, _) => Err(Malformed { header: name.clone(), problem: problem.unwrap_or(Problem::Missing) }),
    }
}

/// A path with a query, or the asterisk of `OPTIONS`. A fragment is not part of a request, and servers differ in how they read one. What clients write
/// into a query although no URI has it, and proxies forward, is the same in percent encoding.
fn target(method: &Method, uri: &HeaderValue) -> Option<Uri> {
    let bytes = uri.as_bytes();
    let is_target = bytes.first() == Some(&b'/') || bytes == b"*" && method == Method::OPTIONS;
    if !is_target || bytes.contains(&b'#') {
        return None;
    }
    let encoded = || {
        let query = bytes.iter().position(|byte| *byte == b'?')?;
        let (path, query) = bytes.split_at_checked(query)?;
        let query = percent_encode(query, REFUSED_IN_QUERIES).flat_map(str::bytes);
        PathAndQuery::try_from([path, &query.collect::<Vec<_>>()].concat()).ok()
    };
    PathAndQuery::try_from(bytes).ok().or_else(encoded).map(Uri::from)
}

/// What [`PathAndQuery`] refuses in a query, and proxies forward. Bytes beyond ASCII are encoded as well.
const REFUSED_IN_QUERIES: &AsciiSet = &AsciiSet::EMPTY.add(b'"').add(b'<').add(b'>');

fn is_host(host: &HeaderValue) -> bool {
    let authority = Authority::try_from(host.as_bytes());
    authority.is_ok_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty())
}

/// The last element of a list, and what is before it.
fn last(header: &HeaderValue) -> Option<(&[u8], Option<HeaderValue>)> {
    let bytes = header.as_bytes();
    match bytes.iter().rposition(|byte| *byte == b',') {
        None => Some((bytes, None)),
        Some(comma) => {
            let (before, last) = (bytes.get(..comma)?, bytes.get(comma + 1..)?);
            Some((last, Some(HeaderValue::from_bytes(before).ok()?)))
        }
    }
}

/// An address without a port and a zone, as all of these proxies write it.
fn address_of(text: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
    let address = address.to_canonical();
    (!address.is_unspecified()).then_some(address)
}

/// A name as proxies are configured with it, such as `X-Original-URI`.
fn canonical(name: &HeaderName) -> String {
    let word = |word: &str| match word {
        "uri" => "URI".to_owned(),
        _ => word.get(..1).unwrap_or_default().to_ascii_uppercase() + word.get(1..).unwrap_or_default(),
    };
    name.as_str().split('-').map(word).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests;
