//! Addresses in text, parsed independently of the layer and the standard library.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses an IPv4 address or an IPv6 address in brackets, each perhaps with a port. `is_port` accepts the ports.
pub(super) fn with_port(text: &str, is_port: fn(&str) -> bool) -> Option<IpAddr> {
    let (address, port) = if let Some(rest) = text.strip_prefix('[') {
        let end = rest.rfind(']')?;
        (IpAddr::V6(ipv6(&rest[..end])?), &rest[end + 1..])
    } else {
        let end = text.find(':').unwrap_or(text.len());
        (IpAddr::V4(ipv4(&text[..end])?), &text[end..])
    };
    let is_complete = port.is_empty() || port.starts_with(':') && is_port(&port[1..]);
    if is_complete { host_address(address) } else { None }
}

/// Parses an address without port and brackets.
pub(super) fn bare(text: &str) -> Option<IpAddr> {
    if text.contains(':') { ipv6(text).map(IpAddr::V6) } else { ipv4(text).map(IpAddr::V4) }
        .and_then(host_address)
}

pub(super) fn is_numeric_port(text: &str) -> bool {
    text.len() <= 5 && number(text, 10).is_some_and(|number| number < 65_536)
}

/// Unmaps an IPv4-mapped address, and rejects the unspecified address, which no host has.
fn host_address(address: IpAddr) -> Option<IpAddr> {
    let address = unmapped(address);
    let zeros = match address {
        IpAddr::V4(four) => u32::from(four) == 0,
        IpAddr::V6(six) => u128::from(six) == 0,
    };
    if zeros { None } else { Some(address) }
}

fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) if six.octets().starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) => {
            let [.., a, b, c, d] = six.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        other => other,
    }
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let octets: Option<Vec<u8>> = text.split('.').map(octet).collect();
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets?).ok()?))
}

/// Rejects leading zeros, which some parsers read as octal.
fn octet(text: &str) -> Option<u8> {
    let plain = text.len() <= 3 && (text.len() == 1 || !text.starts_with('0'));
    if plain { u8::try_from(number(text, 10)?).ok() } else { None }
}

/// Accepts at most one `::`, for at least one group; IPv4 at the end, for two groups; then perhaps a zone.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let (text, zone) = text.split_once('%').unwrap_or((text, "none"));
    let in_zone = |letter: char| letter.is_ascii_alphanumeric() || "-._~".contains(letter);
    if zone.is_empty() || !zone.chars().all(in_zone) {
        return None;
    }
    let groups = match text.split_once("::") {
        None => groups(text)?,
        Some((left, right)) => {
            let (mut left, right) = (groups(left)?, groups(right)?);
            // IPv4 is only allowed at the end of an address, so not on the left.
            if text.find('.') < text.find("::") && text.contains('.') || left.len() + right.len() > 7 {
                return None;
            }
            left.resize(8 - right.len(), 0);
            left.extend(right);
            left
        }
    };
    Some(Ipv6Addr::from(<[u16; 8]>::try_from(groups).ok()?))
}

fn groups(text: &str) -> Option<Vec<u16>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut groups = Vec::new();
    let parts: Vec<_> = text.split(':').collect();
    let (last, before) = parts.split_last()?;
    for part in before {
        groups.push(group(part)?);
    }
    if last.contains('.') {
        let [a, b, c, d] = ipv4(last)?.octets();
        groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
    } else {
        groups.push(group(last)?);
    }
    Some(groups)
}

fn group(text: &str) -> Option<u16> {
    if text.len() <= 4 { u16::try_from(number(text, 16)?).ok() } else { None }
}

/// Parses digits only.
fn number(text: &str, radix: u32) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.chars().try_fold(0, |number, digit| Some(number * radix + digit.to_digit(radix)?))
}
