use super::*;

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs =
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    pairs.collect()
}

fn names(headers: &HeaderMap) -> Vec<&str> {
    headers.keys().map(HeaderName::as_str).collect()
}

#[test]
fn connection_and_what_it_names_are_removed() {
    let mut headers = headers(&[
        ("connection", "close, X-Hop"),
        ("connection", "x-other"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic x"),
        ("proxy-connection", "keep-alive"),
        ("te", "gzip, Trailers"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAM"),
        ("x-hop", "1"),
        ("x-other", "2"),
        ("x-end", "3"),
    ]);
    let removed = remove(&mut headers).unwrap();
    assert_eq!(removed, Removed { trailers: true, is_websocket: false });
    assert_eq!(names(&headers), ["x-end"]);
    write(&mut headers, &removed, false);
    assert_eq!(
        (&headers["connection"], &headers["te"]),
        (&"te".parse().unwrap(), &"trailers".parse().unwrap())
    );
}

#[test]
fn underscores_hide_no_field() {
    let mut headers = headers(&[
        ("transfer_encoding", "chunked"),
        ("content_length", "9"),
        ("content_type", "text/plain"),
        ("proxy_authorization", "Basic x"),
        ("keep_alive", "1"),
        ("x_end", "kept"),
    ]);
    remove(&mut headers).unwrap();
    assert_eq!(names(&headers), ["x_end"]);
}

#[test]
fn connection_cannot_hide_what_proxies_write() {
    let hidden = "x-forwarded-for, forwarded, X_Forwarded_Proto, host, content-length, via, authorization";
    let mut headers = headers(&[("x-forwarded-for", "192.0.2.1"), ("host", "a"), ("content-length", "3")]);
    headers.insert("connection", HeaderValue::from_static(hidden));
    remove(&mut headers).unwrap();
    assert_eq!(names(&headers), ["x-forwarded-for", "host", "content-length"]);
}

#[test]
fn only_chunked_is_decoded() {
    for (value, known) in [
        ("chunked", true),
        ("Chunked", true),
        ("gzip, chunked", false),
        ("chunked, chunked", false),
        ("identity", false),
        ("\u{b}chunked", false),
    ] {
        let Ok(value) = HeaderValue::from_str(value) else { continue };
        let mut headers = HeaderMap::new();
        headers.insert("transfer-encoding", value.clone());
        assert_eq!(remove(&mut headers).is_ok(), known, "{value:?}");
    }
    let mut obscure = HeaderMap::new();
    obscure.insert("transfer-encoding", HeaderValue::from_bytes(b"chunked\xff").unwrap());
    assert_eq!(remove(&mut obscure), Err(UnknownCoding));
}

#[test]
fn only_web_sockets_are_upgraded() {
    for (upgrade, connection, expected) in [
        ("websocket", "Upgrade", true),
        ("WebSocket", "keep-alive, upgrade", true),
        ("h2c", "Upgrade, HTTP2-Settings", false),
        ("websocket", "keep-alive", false),
    ] {
        let mut headers = headers(&[("upgrade", upgrade), ("connection", connection)]);
        let removed = remove(&mut headers).unwrap();
        assert_eq!(removed.is_websocket, expected, "{upgrade} {connection}");
        write(&mut headers, &removed, false);
        assert_eq!(headers.contains_key("upgrade"), expected);
    }
}

#[test]
fn trailers_lose_what_would_be_a_header() {
    let mut trailers = headers(&[
        ("x-forwarded-for", "6.6.6.6"),
        ("content-length", "9"),
        ("content_length", "9"),
        ("x-original-url", "/admin"),
        ("authorization", "x"),
        ("grpc-status", "0"),
    ]);
    clean_trailers(&mut trailers);
    assert_eq!(names(&trailers), ["grpc-status"]);
}

#[test]
fn door_hides_nothing_that_is_kept() {
    for name in &KEPT {
        assert!(!portcullis::rules::Door::Proxy.hides(name), "{name}");
    }
}
