//! Requests that are described by arguments.

use std::net::IpAddr;

use anyhow::{Context as _, bail};
use http::{HeaderName, HeaderValue};

pub(crate) fn parse_peer(text: &str) -> anyhow::Result<IpAddr> {
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

pub(crate) fn parse_header(text: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("a header is written as `Name: value`")?;
    let name = name.parse().context("invalid header name")?;
    let value = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
        .context("invalid header value")?;
    Ok((name, value))
}
