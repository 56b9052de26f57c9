//! The header fields about the client: `Forwarded`, `X-Forwarded-*` and their like.
//!
//! Source: RFC 7239, sections 4 to 6.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use portcullis::ClientIp;
use portcullis_identity::matching::folded_header;

use super::remove_all;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Beside all names that begin with one of [`PREFIXES`].
const NAMES: [&str; 18] = [
    "forwarded",
    "forwarded-for",
    "x-forwarded",
    "x-real-ip",
    "x-remote-ip",
    "x-remote-addr",
    "x-client-ip",
    "client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fastly-client-ip",
    "fly-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-envoy-original-path",
    "x-host",
];

/// `X-Original-URL` and `X-Rewrite-URL` are the path for some frameworks, whatever the request line says.
const PREFIXES: [&str; 3] = ["x-forwarded-", "x-original-", "x-rewrite-"];

/// Whether servers take a field for the client's address, its host, its scheme or the path. `_` counts as `-`.
pub(super) fn is_forwarding(name: &HeaderName) -> bool {
    let begins = |prefix: &str| folded_header(name).take(prefix.len()).eq(prefix.bytes());
    NAMES.iter().any(|known| folded_header(name).eq(known.bytes())) || PREFIXES.into_iter().any(begins)
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) peer: SocketAddr,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// What the client has written, before it is changed for the upstream.
    pub(crate) host: Option<&'a HeaderValue>,
}

/// Writes the fields. Those of a peer that is not trusted are removed first; a trusted one has written the field that `clients` reads,
/// and nothing says so of the other list: it is begun anew with the client.
pub(crate) fn write(headers: &mut HeaderMap, origin: &Origin<'_>, clients: &ClientIp) {
    let peer = fold(origin.peer.ip());
    let client = clients.find(peer, headers).ok().filter(|_| clients.trusts(peer));
    let Some(client) = client else {
        remove_all(headers, is_forwarding);
        headers.insert(X_FORWARDED_FOR, text(&peer.to_string()));
        headers.insert(header::FORWARDED, element(peer, origin.scheme, origin.host));
        set_scheme_and_host(headers, origin.scheme, origin.host);
        return;
    };
    let read = clients.header().cloned();
    let scheme = single(headers, &X_FORWARDED_PROTO).filter(is_scheme);
    let host = single(headers, &X_FORWARDED_HOST).filter(is_host);
    remove_all(headers, |name| is_forwarding(name) && Some(name) != read.as_ref());
    if read.as_ref() == Some(&X_FORWARDED_FOR) {
        append(headers, X_FORWARDED_FOR, &peer.to_string());
    } else {
        headers.insert(X_FORWARDED_FOR, text(&client.to_string()));
    }
    // What the client asked the first proxy for is known only if that one has written it.
    let (scheme, host) =
        (scheme.unwrap_or_else(|| text(origin.scheme)), host.as_ref().or(origin.host).cloned());
    let known = scheme.to_str().unwrap_or(origin.scheme);
    if read.as_ref() == Some(&header::FORWARDED) {
        let element = element(peer, origin.scheme, origin.host);
        append(headers, header::FORWARDED, element.to_str().unwrap_or_default());
    } else {
        headers.insert(header::FORWARDED, element(client, known, host.as_ref()));
    }
    set_scheme_and_host(headers, known, host.as_ref());
}

fn set_scheme_and_host(headers: &mut HeaderMap, scheme: &str, host: Option<&HeaderValue>) {
    headers.insert(X_FORWARDED_PROTO, text(scheme));
    if let Some(host) = host {
        headers.insert(X_FORWARDED_HOST, host.clone());
    }
}

/// Adds an element to a list. All lines become one, because some servers read the first or the last line only.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut list = Vec::new();
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    headers.insert(name, HeaderValue::from_bytes(&list).expect("parts of header values are one"));
}

/// One element of `Forwarded`. An IPv6 address is in brackets and quoted; a host is quoted.
fn element(address: IpAddr, scheme: &str, host: Option<&HeaderValue>) -> HeaderValue {
    let mut element = match address {
        IpAddr::V4(address) => format!("for={address}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\""),
    };
    if let Some(host) = host.filter(|host| is_host(host)).and_then(|host| host.to_str().ok()) {
        write!(element, ";host=\"{host}\"").expect("writing to a string does not fail");
    }
    write!(element, ";proto={scheme}").expect("writing to a string does not fail");
    text(&element)
}

/// A field that came once and is not a list.
fn single(headers: &HeaderMap, name: &HeaderName) -> Option<HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).cloned()
}

fn is_scheme(value: &HeaderValue) -> bool {
    ["http", "https"].iter().any(|scheme| value.as_bytes().eq_ignore_ascii_case(scheme.as_bytes()))
}

fn is_host(value: &HeaderValue) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(byte);
    !value.is_empty() && value.as_bytes().iter().all(is_part)
}

/// An IPv4-mapped address is the IPv4 address.
fn fold(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("addresses, schemes and hosts are header values")
}

#[cfg(test)]
mod tests;
