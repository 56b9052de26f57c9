//! A descriptor as a request.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use portcullis::key::KeyError;

use crate::call::Descriptor;

/// The header with the domain of the call.
static DOMAIN: HeaderName = HeaderName::from_static("x-envoy-domain");

/// What a rule that needs an address says of a descriptor without one.
pub(super) const NO_ADDRESS: &str = "the descriptor has no entry `remote_address`, which a rule that matches it needs: \
    put all entries that the rules need into one descriptor";

/// The error of a request that has no address.
pub(super) fn no_address() -> KeyError {
    KeyError::server(NO_ADDRESS)
}

/// The request that a descriptor stands for. Keys of entries have no case, as the names of headers have none. See the table of the [crate](crate#native-rules).
pub(super) fn of(domain: &str, descriptor: &Descriptor<'_>) -> Result<Parts, &'static str> {
    if descriptor.limit.is_some() {
        return Err("a limit override has no rule whose place it takes");
    }
    if descriptor.is_refund {
        return Err("negative hits cannot be refunded");
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.uri = Uri::from_static("/");
    let domain = HeaderValue::from_str(domain).map_err(|_| "the domain is not the value of a header")?;
    parts.headers.insert(DOMAIN.clone(), domain);
    parts.extensions.insert(no_address());
    for (key, value) in &descriptor.entries {
        match key.to_ascii_lowercase().as_str() {
            ":method" | "method" => {
                parts.method = Method::from_bytes(value.as_bytes()).map_err(|_| "a method is not valid")?;
            }
            ":path" | "path" => {
                parts.uri = path(value).ok_or("a path is not valid")?;
            }
            ":authority" | "authority" | "host" => {
                parts.headers.insert(header::HOST, text(value)?);
            }
            "remote_address" | "masked_remote_address" => {
                let peer = address(value).ok_or("a remote address is neither an address nor a network")?;
                parts.extensions.insert(SocketAddr::new(peer, 0));
            }
            _ => {
                let name = HeaderName::from_bytes(key.as_bytes())
                    .map_err(|_| "a key is not the name of a header")?;
                if name != DOMAIN {
                    parts.headers.append(name, text(value)?);
                }
            }
        }
    }
    Ok(parts)
}

/// The value of a header. A client chooses it, so bytes that no header has are encoded: a call that fails would be admitted by Envoy.
fn text(value: &str) -> Result<HeaderValue, &'static str> {
    let is_kept = |byte: u8| byte == b'\t' || !byte.is_ascii_control();
    HeaderValue::from_str(value)
        .or_else(|_| HeaderValue::from_bytes(&encoded(value, is_kept)))
        .map_err(|_| "a value is not that of a header")
}

/// Path and query, or the `*` of OPTIONS. A client chooses them, and Envoy forwards what no URI has, and would admit a call that fails. So other bytes are
/// encoded, and so is `#`, behind which servers may read on. Of what is too long the query is cut off. A path that is too long ends with a slash in place of
/// its rest: it has several readings then, more than anybody compares, so that all that restricts applies to it, and nothing that relieves.
fn path(value: &str) -> Option<Uri> {
    if value.split('#').next() == Some("*") {
        return Some(Uri::from_static("*"));
    }
    if !value.starts_with('/') {
        return None;
    }
    let whole = value.parse().ok().filter(|_| !value.contains('#'));
    whole.or_else(|| {
        let is_kept = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>`".contains(&byte);
        let mut bytes = encoded(value, is_kept);
        let path = bytes.iter().position(|byte| *byte == b'?').unwrap_or(bytes.len());
        bytes.truncate(MAX_PATH_BYTES);
        if let Some(last) = bytes.last_mut().filter(|_| path > MAX_PATH_BYTES) {
            *last = b'/';
        }
        Uri::try_from(bytes).ok()
    })
}

/// The text with all other bytes in percent encoding.
fn encoded(text: &str, is_kept: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if is_kept(byte) {
            bytes.push(byte);
        } else {
            bytes.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    bytes
}

/// The longest [`Uri`].
const MAX_PATH_BYTES: usize = 65_534;

/// An address, or the first address of a network such as `192.0.2.0/24`.
fn address(value: &str) -> Option<IpAddr> {
    let address = value.split_once('/').map_or(value, |(address, _)| address);
    address.parse().ok()
}
