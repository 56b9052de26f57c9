//! Requests that are described by arguments.

use std::net::IpAddr;

use anyhow::{Context as _, bail};
use http::{HeaderName, HeaderValue, Method, Uri};

/// Parses the address of a peer. A port and a zone are dropped.
///
/// # Errors
///
/// If it is no address.
pub fn parse_peer(text: &str) -> anyhow::Result<IpAddr> {
    // Accepts named zones, as operating systems print them: `SocketAddrV6` only parses numeric ones.
    let without_zone = |text: &str| match text.split_once('%') {
        Some((address, zone)) if !zone.is_empty() => address.parse().map(IpAddr::V6).ok(),
        _ => None,
    };
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address);
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Ok(address.ip());
    }
    match without_zone(text) {
        Some(address) => Ok(address),
        None => bail!("a peer is an address such as 192.0.2.1 or 2001:db8::1"),
    }
}

/// Parses `Name: value`.
///
/// # Errors
///
/// If the name or the value is invalid.
pub fn parse_header(text: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("a header is written as `Name: value`")?;
    let name = name.parse().context("invalid header name")?;
    let value = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
        .context("invalid header value")?;
    Ok((name, value))
}

/// Parses the method and the path, or a whole URL, as in `GET /search?q=x`.
///
/// # Errors
///
/// If the method or the URL is invalid.
pub fn parse_request(text: &str) -> anyhow::Result<(Method, Uri)> {
    let (method, uri) = text.trim().split_once(' ').context("a request is written as 'GET /path'")?;
    let method: Method = method.parse().with_context(|| format!("{method:?} is no method"))?;
    let uri: Uri = uri.trim().parse().with_context(|| format!("{uri:?} is no path or URL"))?;
    if !uri.path().starts_with('/') {
        bail!("{uri:?} is no path or URL: write '/path' or 'https://host/path'");
    }
    Ok((method, uri))
}
