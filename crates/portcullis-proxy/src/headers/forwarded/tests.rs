use portcullis::key::Trust;

use super::*;

const PROXY: &str = "10.0.0.9:4000";
const CLIENT: &str = "198.51.100.7:4000";

/// The fields that an upstream gets, with an untouched one.
fn written(clients: &ClientIp, peer: &str, lines: &[(&'static str, &'static str)]) -> Vec<String> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let host = HeaderValue::from_static("shop.example");
    let origin = Origin { peer: peer.parse().unwrap(), scheme: "http", host: Some(&host) };
    write(&mut headers, &origin, clients);
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

fn x_forwarded_for() -> ClientIp {
    ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for()
}

#[test]
fn forged_fields_are_replaced() {
    let forged = [
        ("forwarded", "for=6.6.6.6;proto=https"),
        ("x-forwarded-for", "6.6.6.6"),
        ("x_forwarded_for", "6.6.6.6"),
        ("x-forwarded-host", "admin.internal"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-prefix", "/admin"),
        ("x-real-ip", "6.6.6.6"),
        ("cf-connecting-ip", "6.6.6.6"),
        ("cf-connecting-ipv6", "2001:db8::6"),
        ("true_client_ip", "6.6.6.6"),
        ("x-original-url", "/admin"),
        ("x_rewrite_url", "/admin"),
        ("x-request-id", "kept"),
    ];
    let expected = [
        "forwarded: for=198.51.100.7;host=\"shop.example\";proto=http",
        "x-forwarded-for: 198.51.100.7",
        "x-forwarded-host: shop.example",
        "x-forwarded-proto: http",
        "x-request-id: kept",
    ];
    for clients in [ClientIp::peer(), x_forwarded_for()] {
        assert_eq!(written(&clients, CLIENT, &forged), expected);
    }
}

#[test]
fn a_trusted_peer_is_appended() {
    let lines = [
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-for", "192.0.2.1, 10.0.0.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "www.example"),
        ("forwarded", "for=6.6.6.6"),
        ("x-real-ip", "6.6.6.6"),
    ];
    let expected = [
        "forwarded: for=192.0.2.1;host=\"www.example\";proto=https",
        "x-forwarded-for: 6.6.6.6, 192.0.2.1, 10.0.0.7, 10.0.0.9",
        "x-forwarded-host: www.example",
        "x-forwarded-proto: https",
    ];
    assert_eq!(written(&x_forwarded_for(), PROXY, &lines), expected);
}

#[test]
fn forwarded_is_appended_where_it_is_read() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).forwarded();
    let lines = [("forwarded", "for=\"[2001:db8::1]\""), ("x-forwarded-for", "6.6.6.6")];
    let expected = [
        "forwarded: for=\"[2001:db8::1]\", for=10.0.0.9;host=\"shop.example\";proto=http",
        "x-forwarded-for: 2001:db8::1",
        "x-forwarded-host: shop.example",
        "x-forwarded-proto: http",
    ];
    assert_eq!(written(&clients, PROXY, &lines), expected);
}

#[test]
fn a_header_with_one_address_stays() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).header("cf-connecting-ip");
    let lines = [("cf-connecting-ip", "192.0.2.1"), ("x-forwarded-for", "6.6.6.6")];
    let lines = written(&clients, PROXY, &lines);
    assert!(lines.contains(&"cf-connecting-ip: 192.0.2.1".to_owned()), "{lines:?}");
    assert!(lines.contains(&"x-forwarded-for: 192.0.2.1".to_owned()), "{lines:?}");
}

#[test]
fn an_unreadable_chain_of_a_trusted_peer_is_replaced() {
    let lines = written(&x_forwarded_for(), PROXY, &[("x-forwarded-for", "192.0.2.1, nobody")]);
    assert!(lines.contains(&"x-forwarded-for: 10.0.0.9".to_owned()), "{lines:?}");
}

#[test]
fn a_scheme_and_a_host_that_are_none_are_replaced() {
    let lines =
        [("x-forwarded-proto", "gopher"), ("x-forwarded-host", "a\"b"), ("x-forwarded-for", "192.0.2.1")];
    let lines = written(&x_forwarded_for(), "[::ffff:10.0.0.9]:1", &lines);
    assert!(lines.contains(&"x-forwarded-proto: http".to_owned()), "{lines:?}");
    assert!(lines.contains(&"x-forwarded-host: shop.example".to_owned()), "{lines:?}");
    assert!(lines.contains(&"x-forwarded-for: 192.0.2.1, 10.0.0.9".to_owned()), "{lines:?}");
}
