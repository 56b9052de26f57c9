//! The key of an outgoing request by default: the server that it goes to.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header;
use http::request::Parts;
use portcullis_core::KeyWriter;
use portcullis_identity::{Identity, KeyError, KeyExtractor};
use smallvec::SmallVec;

/// The host and port that a request goes to: the key of outgoing requests unless
/// [another](crate::OutgoingLayer::by) is set.
///
/// They are read from the URI or, if it has no authority, from `Host`. Spellings of one host have one key: upper and lower
/// case, a dot at the end, user information, and the default port, which is 80 for `http` and `ws`, 443 for `https` and `wss`, and
/// both without a scheme. So `http://host` and `https://host` share a key, and `http://host:8080` has another. An IP address is
/// compared by its bytes. No name is resolved.
///
/// A request without a host, or with several `Host` headers, is an error.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Key, KeyExtractor as _, KeyWriteError};
/// use portcullis::outgoing::Authority;
///
/// let key = |uri: &str| {
///     let (parts, ()) = Request::get(uri).body(()).expect("a valid URI").into_parts();
///     let mut hasher = Secret::published().hasher();
///     Authority.extract(&parts, &mut hasher.writer()).map(|_| hasher.finish())
/// };
/// assert_eq!(key("https://api.example.com/v1"), key("https://user@API.example.com.:443/v2"));
/// assert_eq!(key("http://[::ffff:192.0.2.1]"), key("http://192.0.2.1"));
/// assert_ne!(key("http://api.example.com"), key("http://api.example.com:8080"));
/// assert!(key("/v1").is_err(), "there is no host");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Authority;

impl KeyExtractor for Authority {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let scheme = parts.uri.scheme_str();
        if let Some(authority) = parts.uri.authority() {
            return write(authority.host(), port_of(authority.as_str())?, scheme, key);
        }
        let mut lines = parts.headers.get_all(header::HOST).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return Err(no_host()) };
        let line = line.to_str().map_err(|_| malformed())?.trim();
        if !line.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\".contains(&byte)) {
            return Err(malformed());
        }
        let end = host_end(line);
        write(&line[..end], port_of(line)?, scheme, key)
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("authority")
    }
}

/// Where the host ends and the port, if there is one, begins with its colon.
fn host_end(authority: &str) -> usize {
    let end_of_literal = authority.rfind(']').map_or(0, |end| end + 1);
    authority[end_of_literal..].rfind(':').map_or(authority.len(), |colon| end_of_literal + colon)
}

fn port_of(authority: &str) -> Result<Option<u16>, KeyError> {
    match authority[host_end(authority)..].strip_prefix(':') {
        None | Some("") => Ok(None),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().map(Some).map_err(|_| malformed())
        }
        Some(_) => Err(malformed()),
    }
}

fn write(
    host: &str,
    port: Option<u16>,
    scheme: Option<&str>,
    key: &mut KeyWriter<'_>,
) -> Result<Identity, KeyError> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() {
        return Err(no_host());
    }
    if host.len() > MAX_HOST {
        return Err(malformed());
    }
    match address(host) {
        Some(IpAddr::V4(address)) => key.part("host address", &address.octets()),
        Some(IpAddr::V6(address)) => key.part("host address", &address.octets()),
        None => {
            let lower: SmallVec<[u8; 64]> = host.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
            key.part("host", &lower);
        }
    }
    if let Some(port) = port.filter(|port| !is_default(*port, scheme)) {
        key.part("port", &port.to_be_bytes());
    }
    Ok(Identity::Found)
}

fn address(host: &str) -> Option<IpAddr> {
    if let Some(literal) = host.strip_prefix('[') {
        let address: Ipv6Addr = literal.strip_suffix(']')?.parse().ok()?;
        return Some(address.to_canonical());
    }
    host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

fn is_default(port: u16, scheme: Option<&str>) -> bool {
    match scheme {
        Some("http" | "ws") => port == 80,
        Some("https" | "wss") => port == 443,
        Some(_) => false,
        None => port == 80 || port == 443,
    }
}

/// In DNS a name has at most this number of characters.
const MAX_HOST: usize = 255;

fn no_host() -> KeyError {
    KeyError::client("the request has no host, or several")
}

fn malformed() -> KeyError {
    KeyError::client("the host of the request is malformed")
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};
    use portcullis_core::{Key, Secret};
    use proptest::prelude::*;

    use super::*;

    fn key(uri: &str, host: Option<&[u8]>) -> Result<Key, KeyError> {
        let (mut parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
        if let Some(host) = host {
            parts.headers.insert(header::HOST, HeaderValue::from_bytes(host).unwrap());
        }
        let mut hasher = Secret::published().hasher();
        let found = Authority.extract(&parts, &mut hasher.writer())?;
        assert_eq!(found, Identity::Found);
        Ok(hasher.finish().unwrap())
    }

    #[test]
    fn the_host_header_is_read_where_the_uri_has_none() {
        let expected = key("http://api.example.com/", None).unwrap();
        for host in [
            "api.example.com",
            "API.Example.Com.",
            "api.example.com:80",
            "api.example.com:443",
            " api.example.com:",
        ] {
            assert_eq!(key("/path", Some(host.as_bytes())), Ok(expected), "{host}");
        }
        assert_eq!(key("http://api.example.com/", Some(b"other")), Ok(expected), "the URI goes first");
        assert_eq!(key("/", Some(b"[2001:db8::1]:8080")), key("http://[2001:DB8:0::1]:8080/", None));
    }

    #[test]
    fn hosts_ports_and_addresses_differ() {
        let keys = [
            "http://a",
            "http://b",
            "http://a:81",
            "https://a:80",
            "http://[::1]",
            "http://[::2]",
            "http://1.2.3.4",
        ];
        let keys: Vec<_> = keys.iter().map(|uri| key(uri, None).unwrap()).collect();
        assert!((1..keys.len()).all(|index| !keys[..index].contains(&keys[index])));
    }

    #[test]
    fn a_request_without_a_usable_host_is_an_error() {
        let long = "a".repeat(256);
        for host in ["", ".", ":80", "a b", "a/b", "a@b", "a:b", "a:65536", &long] {
            assert!(key("/", Some(host.as_bytes())).is_err(), "{host:?}");
        }
        assert!(key("/", None).is_err());
        let two = Request::get("/").header("host", "a").header("host", "a").body(()).unwrap().into_parts().0;
        let mut hasher = Secret::published().hasher();
        assert!(Authority.extract(&two, &mut hasher.writer()).is_err());
    }

    proptest! {
        #[test]
        fn no_host_header_panics(host in "[ -~\u{80}-\u{ff}]{0,80}") {
            if HeaderValue::from_bytes(host.as_bytes()).is_ok() {
                let _ = key("/", Some(host.as_bytes()));
            }
        }
    }
}
