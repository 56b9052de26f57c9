//! Forwarded values, well-formed and not.

use super::*;

fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

/// The head that nginx sends, with one header replaced.
fn nginx(name: &'static str, value: &[u8]) -> Result<Request<Body>, Malformed> {
    let mut headers = headers(&[
        ("x-original-method", b"GET"),
        ("x-original-uri", b"/search?q=1"),
        ("x-original-host", b"example.com"),
        ("x-original-address", b"192.0.2.1"),
        ("host", b"10.0.0.9"),
    ]);
    headers.insert(name, HeaderValue::from_bytes(value).unwrap());
    client_request(Dialect::Nginx, headers)
}

fn caddy(forwarded_for: &[&'static str]) -> Result<Request<Body>, Malformed> {
    let mut all = headers(&[
        ("x-forwarded-method", b"PROPFIND"),
        ("x-forwarded-uri", b"/"),
        ("x-forwarded-host", b"[::1]:8080"),
        ("x-forwarded-proto", b"https"),
    ]);
    for line in forwarded_for {
        all.append("x-forwarded-for", HeaderValue::from_static(line));
    }
    client_request(Dialect::Caddy, all)
}

fn peer(request: &Request<Body>) -> IpAddr {
    request.extensions().get::<ConnectInfo<SocketAddr>>().unwrap().0.ip()
}

#[test]
fn the_request_is_as_it_came_to_nginx() {
    let mut all = headers(&[
        ("x-original-method", b"POST"),
        ("x-original-uri", b"//a/../search?q=%3C&x"),
        ("x-original-host", b"Example.com:8080"),
        ("x-original-address", b"::ffff:192.0.2.1"),
        ("host", b"10.0.0.9:8080"),
        ("x-forwarded-for", b"6.6.6.6"),
        ("x-forwarded-method", b"DELETE"),
        ("connection", b"close"),
        ("content-length", b"5"),
        ("te", b"trailers"),
        ("keep-alive", b"timeout=5"),
        ("x-api-key", b"one"),
    ]);
    all.append("x-api-key", HeaderValue::from_static("two"));
    let request = client_request(Dialect::Nginx, all).unwrap();
    assert_eq!(
        (request.method(), request.uri().to_string()),
        (&Method::POST, "//a/../search?q=%3C&x".to_owned())
    );
    assert_eq!(peer(&request).to_string(), "192.0.2.1");
    let expected = headers(&[
        ("x-api-key", b"one"),
        ("x-api-key", b"two"),
        ("x-forwarded-for", b"6.6.6.6"),
        ("x-forwarded-method", b"DELETE"),
        ("host", b"Example.com:8080"),
    ]);
    assert_eq!(*request.headers(), expected);
}

/// nginx forwards such queries, and clients write them.
#[test]
fn query_counts_in_percent_encoding() {
    for (written, read) in [
        (&b"/a?q=\"<>\xE9%22%zz&x"[..], "/a?q=%22%3C%3E%E9%22%zz&x"),
        (b"/a?q=\xC3", "/a?q=%C3"),
        ("/é?q=<é".as_bytes(), "/é?q=%3C%C3%A9"),
    ] {
        assert_eq!(nginx("x-original-uri", written).unwrap().uri(), read);
    }
    for refused in [&b"/a?q=<#"[..], b"/a?q= ", b"/<?q=<", b"/\xE9?q=<"] {
        assert!(nginx("x-original-uri", refused).is_err(), "{}", refused.escape_ascii());
    }
}

#[test]
fn the_last_address_of_a_list_is_the_peer_of_the_proxy() {
    for (list, address, before) in [
        ("192.0.2.1", "192.0.2.1", None),
        ("2001:db8::1", "2001:db8::1", None),
        ("6.6.6.6, 192.0.2.1", "192.0.2.1", Some("6.6.6.6")),
        ("unknown,, 6.6.6.6,::ffff:192.0.2.1", "192.0.2.1", Some("unknown,, 6.6.6.6")),
    ] {
        let request = caddy(&[list]).unwrap();
        assert_eq!(peer(&request).to_string(), address, "{list}");
        let kept = request.headers().get("x-forwarded-for").map(|value| value.to_str().unwrap());
        assert_eq!(kept, before, "{list}");
        assert_eq!(
            (request.method().as_str(), &request.headers()["host"]),
            ("PROPFIND", &"[::1]:8080".parse().unwrap())
        );
        assert!(!request.headers().contains_key("x-forwarded-uri"));
        assert_eq!(request.headers()["x-forwarded-proto"], "https");
    }
}

#[test]
fn lists_whose_last_entry_is_no_address_are_malformed() {
    for lists in [
        &["unknown"][..],
        &["192.0.2.1, "],
        &["192.0.2.1, unknown"],
        &["192.0.2.1:80"],
        &["[2001:db8::1]"],
        &["fe80::1%eth0"],
        &["0.0.0.0"],
        &["::"],
        &["192.0.2.01"],
        &[""],
    ] {
        assert_eq!(caddy(lists).unwrap_err().to_string(), "X-Forwarded-For: not an address", "{lists:?}");
    }
    let two = caddy(&["6.6.6.6", "192.0.2.1"]).unwrap_err();
    assert_eq!(
        (two.to_string(), two.is_of_client()),
        ("X-Forwarded-For: more than one line".to_owned(), false)
    );
    assert_eq!(caddy(&[]).unwrap_err().to_string(), "X-Forwarded-For: missing");
}

#[test]
fn malformed_values_name_their_header_and_not_the_value() {
    for (name, value, text, is_of_client) in [
        ("x-original-method", &b"G ET"[..], "X-Original-Method: not a method", true),
        ("x-original-method", b"", "X-Original-Method: not a method", true),
        ("x-original-method", b"G\xC3\x89T", "X-Original-Method: not a method", true),
        ("x-original-uri", b"", "X-Original-URI: not a path with a query", true),
        ("x-original-uri", b"search", "X-Original-URI: not a path with a query", true),
        ("x-original-uri", b"http://example.com/search", "X-Original-URI: not a path with a query", true),
        ("x-original-uri", b"*", "X-Original-URI: not a path with a query", true),
        ("x-original-uri", b"/a b", "X-Original-URI: not a path with a query", true),
        ("x-original-uri", b"/search#x", "X-Original-URI: not a path with a query", true),
        ("x-original-uri", b"/\xFF", "X-Original-URI: not a path with a query", true),
        ("x-original-host", b"", "X-Original-Host: not a host", true),
        ("x-original-host", b"user@example.com", "X-Original-Host: not a host", true),
        ("x-original-host", b"a/b", "X-Original-Host: not a host", true),
        ("x-original-address", b"unix:", "X-Original-Address: not an address", false),
        ("x-original-address", b"6.6.6.6, 192.0.2.1", "X-Original-Address: not an address", false),
    ] {
        let malformed = nginx(name, value).map(drop).unwrap_err();
        assert_eq!(
            (malformed.to_string(), malformed.is_of_client()),
            (text.to_owned(), is_of_client),
            "{value:?}"
        );
    }
}

#[test]
fn each_value_must_come_exactly_once_in_its_own_header() {
    let names = Dialect::HaProxy.names();
    for name in [&names.method, &names.uri, &names.host, &names.address] {
        let all = || {
            headers(&[
                ("x-original-method", b"GET"),
                ("x-original-uri", b"/"),
                ("x-original-host", b"example.com"),
                ("x-original-address", b"192.0.2.1"),
                // Of another dialect, which is not looked at.
                ("x-forwarded-method", b"GET"),
                ("x-forwarded-uri", b"/"),
                ("x-forwarded-host", b"example.com"),
                ("x-forwarded-for", b"192.0.2.1"),
            ])
        };
        assert!(client_request(Dialect::HaProxy, all()).is_ok());
        let mut one_less = all();
        one_less.remove(name);
        let missing = client_request(Dialect::HaProxy, one_less).unwrap_err();
        assert_eq!(
            (missing.header.clone(), missing.problem, missing.is_of_client()),
            (name.clone(), Problem::Missing, false)
        );
        let mut one_more = all();
        one_more.append(name, all().get(name).unwrap().clone());
        let repeated = client_request(Dialect::HaProxy, one_more).unwrap_err();
        assert_eq!((repeated.header.clone(), repeated.problem), (name.clone(), Problem::Repeated));
    }
}

#[test]
fn an_asterisk_is_a_target_of_options_only() {
    let all = |method: &'static [u8]| {
        headers(&[
            ("x-original-method", method),
            ("x-original-uri", b"*"),
            ("x-original-host", b"example.com"),
            ("x-original-address", b"192.0.2.1"),
        ])
    };
    assert_eq!(client_request(Dialect::Nginx, all(b"OPTIONS")).unwrap().uri().path(), "*");
    assert!(client_request(Dialect::Nginx, all(b"GET")).is_err());
}
