//! The host that a request names.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use http::header::HOST;
use http::request::Parts;

/// The names of a request's host, in its URI and its headers `Host`, each without user information, the port and the dot of the root. They
/// differ only if the request is malformed. One that is no text is left out.
pub fn hosts(parts: &Parts) -> impl Iterator<Item = &str> {
    let headers = parts.headers.get_all(HOST).iter().filter_map(|value| value.to_str().ok());
    parts.uri.host().into_iter().chain(headers).map(name_of)
}

fn name_of(host: &str) -> &str {
    let host = host.rfind('@').and_then(|at| host.get(at + 1..)).unwrap_or(host);
    let host = match host.rfind(':') {
        Some(at) if !host.get(at..).is_some_and(|port| port.contains(']')) => host.get(..at).unwrap_or(host),
        _ => host,
    };
    host.strip_suffix('.').unwrap_or(host)
}

/// The one form of a name: in lower case, an IPv6 address as it is usually written. `None` if it is no name.
pub(crate) fn canonical(name: &str) -> Option<Cow<'_, str>> {
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = address.parse().ok()?;
        return Some(Cow::Owned(format!("[{address}]")));
    }
    if !is_host_name(name) {
        return None;
    }
    let has_upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if has_upper { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) })
}

/// Whether a text is a name of labels, and no address of IPv6.
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.split('.').all(is_label)
}
