//! A client cannot choose its address by forging headers.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use portcullis_tower::{ClientIp, ClientIpError, Trust};
use proptest::collection::vec;
use proptest::prelude::*;

const PROXY: &str = "10.0.0.1";
const CLIENT: &str = "192.0.2.1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn find(clients: &ClientIp, name: &'static str, lines: &[String]) -> Result<IpAddr, ClientIpError> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    clients.find(ip(PROXY), &headers)
}

fn trust() -> Trust {
    Trust::networks(["10.0.0.0/8"])
}

/// Pieces of both grammars in any order.
fn forgery() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "for=",
        "For=",
        "6.6.6.6",
        "10.0.0.7",
        "\"",
        "\\",
        "\\\"",
        ",",
        ";",
        "=",
        " ",
        "\t",
        "[",
        "]",
        "2001:db8::6",
        ":80",
        "unknown",
        "_hidden",
        "x",
        "host=",
        "by=",
        "proto=https",
        "%eth0",
        "\u{e9}",
        "for=6.6.6.6",
        "for=\"[2001:db8::6]\"",
    ]);
    // Raises the probability that a quoted string is open where the proxy appends.
    let end = prop::sample::select(vec!["", ";x=\"", "for=6.6.6.6;x=\"", ", for=6.6.6.6;x=\"\\"]);
    (prop_oneof![Just(Vec::new()), vec(pieces, 0..12)], end).prop_map(|(pieces, end)| pieces.concat() + end)
}

/// Appends the element of the proxy to the lines of the client: as a new line, or in the last one.
fn passed_on(mut forged: Vec<String>, own: &str, in_a_line: bool) -> Vec<String> {
    match forged.last_mut() {
        Some(last) if in_a_line => {
            last.push_str(", ");
            last.push_str(own);
        }
        _ => forged.push(own.to_owned()),
    }
    forged
}

/// The documented rule, applied to the joined header.
fn expected(lines: &[String]) -> Option<IpAddr> {
    let joined = lines.join(",");
    let mut client = ip(PROXY);
    for element in joined.rsplit(',').filter(|_| !lines.is_empty()) {
        if !client.to_string().starts_with("10.") {
            break;
        }
        client = element.trim().parse().ok()?;
    }
    Some(client)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn only_the_element_of_the_proxy_in_forwarded_counts(
        forged in vec(forgery(), 0..3),
        own in prop::sample::select(vec![
            ("for=192.0.2.1", CLIENT),
            ("for=\"192.0.2.1:80\";proto=https", CLIENT),
            ("by=\"[fd00::1]\";host=\"example.com\";for=192.0.2.1", CLIENT),
            ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]\";by=\"[fd00::1]\"", "2001:db8::1"),
        ]),
        in_a_line: bool,
    ) {
        let clients = ClientIp::behind(trust()).forwarded();
        let found = find(&clients, "forwarded", &passed_on(forged, own.0, in_a_line));
        prop_assert!(found.is_err() || found == Ok(ip(own.1)), "{:?}", found);
    }

    #[test]
    fn only_the_element_of_the_proxy_in_x_forwarded_for_counts(
        forged in vec(forgery(), 0..3),
        own in prop::sample::select(vec!["192.0.2.1", "192.0.2.1:80", "::ffff:192.0.2.1"]),
        in_a_line: bool,
    ) {
        let clients = ClientIp::behind(trust()).x_forwarded_for();
        prop_assert_eq!(find(&clients, "x-forwarded-for", &passed_on(forged, own, in_a_line)), Ok(ip(CLIENT)));
    }

    #[test]
    fn lines_are_one_list_however_they_are_split(
        elements in vec(prop::sample::select(vec!["6.6.6.6", "192.0.2.1", "10.0.0.7", "10.1.2.3", "odd", ""]), 0..6),
        breaks in vec(any::<bool>(), 6),
    ) {
        let mut lines: Vec<String> = Vec::new();
        for (element, new_line) in elements.iter().zip(breaks) {
            match lines.last_mut() {
                Some(line) if !new_line => { line.push_str(", "); line.push_str(element); }
                _ => lines.push((*element).to_owned()),
            }
        }
        let clients = ClientIp::behind(trust()).x_forwarded_for();
        prop_assert_eq!(find(&clients, "x-forwarded-for", &lines).ok(), expected(&lines));
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in vec(prop_oneof![Just(b'\t'), 0x20u8..0x7f, 0x80u8..=0xff], 0..64)) {
        for (name, clients) in [
            ("forwarded", ClientIp::behind(Trust::hops(9)).forwarded()),
            ("x-forwarded-for", ClientIp::behind(Trust::hops(9)).x_forwarded_for()),
            ("x-real-ip", ClientIp::behind(Trust::hops(9)).header("x-real-ip")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_bytes(&bytes).unwrap());
            let _ = clients.find(ip(PROXY), &headers);
        }
    }
}

#[test]
fn absent_header_alone_falls_back_to_the_peer() {
    let clients = ClientIp::behind(trust()).header_or_peer("x-real-ip");
    let find = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        find(&clients, "x-real-ip", &lines)
    };
    assert_eq!(find(&[]), Ok(ip(PROXY)));
    assert_eq!(find(&[CLIENT]), Ok(ip(CLIENT)));
    for lines in [&[""][..], &["unknown"], &["0.0.0.0"], &[CLIENT, CLIENT], &["10.0.0.7, 6.6.6.6"]] {
        assert!(find(lines).is_err(), "{lines:?}");
    }
    // A peer that is not trusted neither falls back nor is believed.
    let mut headers = HeaderMap::new();
    assert_eq!(clients.find(ip(CLIENT), &headers), Ok(ip(CLIENT)));
    headers.insert("x-real-ip", HeaderValue::from_static("6.6.6.6"));
    assert_eq!(clients.find(ip(CLIENT), &headers), Ok(ip(CLIENT)));
}
