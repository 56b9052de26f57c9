//! nginx with `real_ip_recursive` and the layer, asked the same. Where they differ, docs/identity.md says how.

mod ask;
mod random;

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use portcullis::{ClientIp, ClientIpError, Trust};

use ask::RealIp;
use random::Random;

/// Trusted by both: the peer, who is always on the loopback, and some of either family.
const TRUSTED: [&str; 4] = ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "fd00::/8"];
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const QUESTIONS: usize = 20_000;

/// How the two relate. All but the first stand in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// The same client.
    Same,
    /// Neither can read an element: the layer refuses, nginx takes the hop before it.
    Unreadable,
    /// An element is empty: the layer refuses, nginx skips it or stops.
    Empty,
    /// A blank stands in an element: the layer refuses, to nginx these are two elements.
    Blank,
    /// Only nginx reads an element, which is written loosely: the layer refuses.
    Loose,
    /// An element is the unspecified address: the layer refuses, to nginx it is an address.
    Unspecified,
    /// Only the layer reads an element: in brackets without a port, with a zone, port 0, a tab beside it or behind a comma
    /// at the beginning of a line. nginx takes the hop before it.
    Exact,
}

#[test]
fn nginx_finds_the_same_client_or_the_book_says_why_not() {
    let mut nginx = RealIp::start(&TRUSTED);
    let mut random = Random::seeded();
    let mut seen = BTreeMap::new();
    for _ in 0..QUESTIONS {
        let lines = random.lines();
        *seen.entry(relation(&mut nginx, &lines)).or_insert(0) += 1;
    }
    println!("{QUESTIONS} requests: {seen:?}");
    for relation in [
        Relation::Same,
        Relation::Unreadable,
        Relation::Empty,
        Relation::Blank,
        Relation::Loose,
        Relation::Unspecified,
        Relation::Exact,
    ] {
        assert!(seen.get(&relation).is_some_and(|times| *times > 50), "too few are {relation:?}: {seen:?}");
    }
}

/// Panics if they differ in another way than the book says.
fn relation(nginx: &mut RealIp, lines: &[String]) -> Relation {
    let clients = ClientIp::behind(Trust::networks(TRUSTED)).x_forwarded_for();
    let (ours, theirs) = (find(&clients, "x-forwarded-for", lines), nginx.ask(lines));
    if ours == Ok(theirs) {
        return Relation::Same;
    }
    // The way of both, up to the first element that is odd to one of them.
    let mut hop = PEER;
    for (index, element) in elements(lines).into_iter().enumerate() {
        let trimmed = element.trim_matches([' ', '\t', ',']);
        let we_refuse =
            matches!(&ours, Err(ClientIpError::NotAnAddress { position, .. }) if *position == index + 1);
        if we_refuse && trimmed.is_empty() {
            return Relation::Empty;
        }
        if we_refuse && trimmed.contains(' ') {
            return Relation::Blank;
        }
        match (read(trimmed), nginx.reads(element)) {
            (None, true) if we_refuse && is_unspecified(trimmed) => return Relation::Unspecified,
            (None, true) if we_refuse && is_loose(trimmed) => return Relation::Loose,
            (None, false) if we_refuse && theirs == hop => return Relation::Unreadable,
            (Some(_), false) if is_exact(element.trim_matches(' ')) && theirs == hop => {
                return Relation::Exact;
            }
            (Some(address), true) => hop = address,
            _ => break,
        }
    }
    panic!("{lines:?}: we say {ours:?}, nginx {theirs}, at {hop}");
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

/// From the right over all lines. To nginx a comma at the very beginning of a line belongs to what follows.
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

/// One element as the layer reads it.
fn read(element: &str) -> Option<IpAddr> {
    find(&ClientIp::behind(Trust::hops(1)).header("x-one"), "x-one", &[element.to_owned()]).ok()
}

/// `0.0.0.0` or `::`, also as an IPv4-mapped address, with a port or not.
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

/// Numbers with zeros in front or with no digits, a colon too many.
fn is_loose(element: &str) -> bool {
    let zeros = |part: &str| part.is_empty() || part.len() > 1 && part.starts_with('0');
    element.split(['.', ':', '[', ']']).any(zeros)
}

/// Brackets without a port, a zone, port 0, a tab beside it or a comma at the beginning of the line.
fn is_exact(element: &str) -> bool {
    element.starts_with(',')
        || element.contains('\t')
        || element.ends_with(']')
        || element.contains('%')
        || element.rsplit_once(':').is_some_and(|(address, port)| {
            port.bytes().all(|digit| digit == b'0') && (address.ends_with(']') || address.contains('.'))
        })
}
