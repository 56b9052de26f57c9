//! Parses addresses as proxies write them.

use std::net::{IpAddr, Ipv6Addr};

/// Parses an element of `X-Forwarded-For`: an address with or without a port, IPv6 with or without brackets, but not the
/// unspecified address.
pub(super) fn parse_element(element: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(element.trim_ascii()).ok()?;
    match parse_bare(text) {
        Some(address) => Some(address),
        None => parse_with_port(text, is_port),
    }
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]` or `[2001:db8::1]:80`, where `is_port` validates the part after the colon.
pub(super) fn parse_with_port(text: &str, is_port: impl Fn(&str) -> bool) -> Option<IpAddr> {
    let (address, rest) = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']')?;
        (IpAddr::V6(parse_ipv6(address)?), rest)
    } else {
        let end = text.find(':').unwrap_or(text.len());
        (IpAddr::V4(text.get(..end)?.parse().ok()?), text.get(end..)?)
    };
    let port_is_fine = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    if port_is_fine { specified(address) } else { None }
}

pub(super) fn is_port(text: &str) -> bool {
    (1..=5).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u16>().is_ok()
}

/// Converts an IPv4-mapped IPv6 address, in `::ffff:0:0/96`, to the IPv4 address. Other addresses are unchanged.
pub(super) fn fold(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn parse_bare(text: &str) -> Option<IpAddr> {
    let address = match text.parse() {
        Ok(address) => IpAddr::V4(address),
        Err(_) => IpAddr::V6(parse_ipv6(text)?),
    };
    specified(address)
}

/// Rejects the unspecified address, `0.0.0.0` or `::`: no host has it, and a proxy writes it for an unknown client.
///
/// Source: RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.2.
fn specified(address: IpAddr) -> Option<IpAddr> {
    let address = fold(address);
    (!address.is_unspecified()).then_some(address)
}

/// Drops the zone, which is meaningful on one host only.
///
/// Source: RFC 4007, section 11; RFC 6874, section 2.
fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    let address = match text.split_once('%') {
        Some((address, zone)) if is_zone(zone) => address,
        Some(_) => return None,
        None => text,
    };
    address.parse().ok()
}

fn is_zone(zone: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    !zone.is_empty() && zone.bytes().all(unreserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_proxies_write_are_addresses() {
        for (element, address) in [
            ("192.0.2.1", "192.0.2.1"),
            (" \t192.0.2.1\t ", "192.0.2.1"),
            ("192.0.2.1:65535", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:DB8:0::0001", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0.1]:80", "fe80::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("::ffff:c000:201", "192.0.2.1"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
            ("::192.0.2.1", "::c000:201"),
            ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"),
            ("0.0.0.1", "0.0.0.1"),
            ("::1", "::1"),
        ] {
            assert_eq!(parse_element(element.as_bytes()), Some(address.parse().unwrap()), "{element}");
        }
    }

    #[test]
    fn other_elements_are_not_addresses() {
        for element in [
            "",
            " ",
            "unknown",
            "_hidden",
            "localhost",
            "-",
            "192.0.2",
            "192.0.2.1.1",
            "192.0.2.256",
            "192.0.2.01",
            "0x7f.0.0.1",
            "2130706433",
            "192.0.2.1:",
            "192.0.2.1:65536",
            "192.0.2.1:+80",
            "192.0.2.1:http",
            "192.0.2.1%eth0",
            "192.0.2.1/32",
            "192.0.2.1 192.0.2.2",
            "\"192.0.2.1\"",
            "[192.0.2.1]",
            "[2001:db8::1",
            "2001:db8::1]",
            "[2001:db8::1]80",
            "[2001:db8::1]:",
            "[]",
            "[]:80",
            ":::",
            "2001:db8::1::",
            "fe80::1%",
            "fe80::1%a%b",
            "fe80::1%\u{e9}",
            "12345::",
            "1:2:3:4:5:6:7:8:9",
            "::ffff:192.0.2.256",
            "192.0.2.1\u{a0}",
            "0.0.0.0",
            "0.0.0.0:80",
            "::",
            "::0.0.0.0",
            "0:0:0:0:0:0:0:0",
            "[::]",
            "[::]:80",
            "::%eth0",
            "::ffff:0.0.0.0",
            "::ffff:0:0",
            "[::ffff:0.0.0.0]:80",
        ] {
            assert_eq!(parse_element(element.as_bytes()), None, "{element:?}");
        }
        assert_eq!(parse_element(b"192.0.2.1\xff"), None);
    }
}
