//! Compares the layer with nginx's `real_ip_recursive` on the same requests. `Relation` lists the differences.

mod random;
mod real_ip;

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use portcullis::ClientIp;
use portcullis::key::{ClientIpError, Trust};

use random::Random;
use real_ip::RealIp;

/// The networks that both trust: the loopback, on which the peer always is, and some networks of either family.
const TRUSTED: [&str; 4] = ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "fd00::/8"];
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const REQUESTS: usize = 20_000;

/// The relation of the two results. All but the first are known differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// Both find one client.
    Same,
    /// Neither can parse an element: the layer rejects the request, nginx uses the hop before it.
    Unreadable,
    /// An element is empty: the layer rejects the request, nginx skips the element or stops.
    Empty,
    /// An element contains a blank: the layer rejects the request, nginx reads two elements.
    Blank,
    /// Only nginx parses an element, which is not strictly an address: the layer rejects the request.
    Loose,
    /// An element is the unspecified address: the layer rejects the request, nginx accepts the address.
    Unspecified,
    /// Only the layer parses an element: in brackets without a port, with a zone, with port 0, next to a tab, or after a comma
    /// at the beginning of a line. nginx uses the hop before it.
    Exact,
}

#[test]
fn nginx_differs_only_in_known_ways() {
    let mut nginx = RealIp::start(&TRUSTED);
    let mut random = Random::seeded();
    let mut seen = BTreeMap::new();
    for _ in 0..REQUESTS {
        let lines = random.lines();
        *seen.entry(relation(&mut nginx, &lines)).or_insert(0) += 1;
    }
    println!("{REQUESTS} requests: {seen:?}");
    for relation in [
        Relation::Same,
        Relation::Unreadable,
        Relation::Empty,
        Relation::Blank,
        Relation::Loose,
        Relation::Unspecified,
        Relation::Exact,
    ] {
        assert!(seen.get(&relation).is_some_and(|count| *count > 50), "too few are {relation:?}: {seen:?}");
    }
}

/// Returns how the two results relate. Panics if the difference is not known.
fn relation(nginx: &mut RealIp, lines: &[String]) -> Relation {
    let clients = ClientIp::behind(Trust::networks(TRUSTED)).x_forwarded_for();
    let (found, from_nginx) = (find(&clients, "x-forwarded-for", lines), nginx.client(lines));
    if found == Ok(from_nginx) {
        return Relation::Same;
    }
    // Follows the hops of both, up to the first element that one of them cannot parse.
    let mut hop = PEER;
    for (index, element) in elements(lines).into_iter().enumerate() {
        let trimmed = element.trim_matches([' ', '\t', ',']);
        let layer_rejects =
            matches!(&found, Err(ClientIpError::NotAnAddress { position, .. }) if *position == index + 1);
        if layer_rejects && trimmed.is_empty() {
            return Relation::Empty;
        }
        if layer_rejects && trimmed.contains(' ') {
            return Relation::Blank;
        }
        match (read(trimmed), nginx.reads(element)) {
            (None, true) if layer_rejects && is_unspecified(trimmed) => return Relation::Unspecified,
            (None, true) if layer_rejects && is_loose(trimmed) => return Relation::Loose,
            (None, false) if layer_rejects && from_nginx == hop => return Relation::Unreadable,
            (Some(_), false) if is_exact(element.trim_matches(' ')) && from_nginx == hop => {
                return Relation::Exact;
            }
            (Some(address), true) => hop = address,
            _ => break,
        }
    }
    panic!("{lines:?}: the layer finds {found:?}, nginx {from_nginx}, at {hop}");
}

fn find(clients: &ClientIp, name: &'static str, lines: &[String]) -> Result<IpAddr, ClientIpError> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(line.trim_matches([' ', '\t'])).unwrap(),
        );
    }
    clients.find(PEER, &headers)
}

/// The elements from the right over all lines. For nginx a comma at the beginning of a line belongs to the element after it.
fn elements(lines: &[String]) -> Vec<&str> {
    let mut elements = Vec::new();
    for line in lines.iter().rev() {
        let mut rest = line.trim_matches(' ');
        while let Some(comma) = rest.rfind(',') {
            let glued = comma == 0 && !rest[1..].starts_with(' ');
            elements.push(if glued { rest } else { &rest[comma + 1..] });
            rest = &rest[..comma];
        }
        elements.push(rest);
    }
    elements
}

/// Parses one element with the layer.
fn read(element: &str) -> Option<IpAddr> {
    find(&ClientIp::behind(Trust::hops(1)).header("x-one"), "x-one", &[element.to_owned()]).ok()
}

/// Whether an element is `0.0.0.0` or `::`, also as an IPv4-mapped address, with or without a port.
fn is_unspecified(element: &str) -> bool {
    let address = match element.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None if element.contains('.') && !element.starts_with("::") => {
            element.split(':').next().unwrap_or_default()
        }
        None => element,
    };
    address.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_unspecified())
}

/// Whether an element has numbers with leading zeros or without digits, or a colon too many.
fn is_loose(element: &str) -> bool {
    let zeros = |part: &str| part.is_empty() || part.len() > 1 && part.starts_with('0');
    element.split(['.', ':', '[', ']']).any(zeros)
}

/// Whether an element has brackets without a port, a zone, port 0, a tab next to it or a comma at the beginning of the line.
fn is_exact(element: &str) -> bool {
    element.starts_with(',')
        || element.contains('\t')
        || element.ends_with(']')
        || element.contains('%')
        || element.rsplit_once(':').is_some_and(|(address, port)| {
            port.bytes().all(|digit| digit == b'0') && (address.ends_with(']') || address.contains('.'))
        })
}
