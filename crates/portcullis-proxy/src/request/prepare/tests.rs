use http::Request;
use portcullis::rules::{Format, Loader, Rules};

use super::*;

const NAME: &str = "portcullis-1";

fn rules() -> Rules {
    let text = "[client_ip]\nheader = 'x-forwarded-for'\ntrusted_proxies = '10.0.0.0/8'\n\
                [policy.p]\nstrategy = 'gcra'\nquota = '1/s'\nkey = { header = 'x-consumer-id', trusted = true }\n";
    Rules::load(&Loader::text("limits.toml", Format::Toml, text)).unwrap()
}

/// Prepares a request of HTTP/1.1, or of HTTP/2 if it begins with `2 `.
fn prepared(line: &str, lines: &[(&str, &str)]) -> Result<Parts, Failure> {
    let (version, line) = match line.strip_prefix("2 ") {
        Some(line) => (Version::HTTP_2, line),
        None => (Version::HTTP_11, line),
    };
    let (method, uri) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(uri).version(version);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let mut parts = request.body(()).unwrap().into_parts().0;
    let prepared = prepare(&mut parts, NAME, |name| rules().is_trusted_header(name))?;
    parts.extensions.insert(prepared);
    Ok(parts)
}

#[test]
fn a_request_has_one_host() {
    for (line, hosts, expected) in [
        ("GET /", &["a.example"][..], Some("a.example")),
        ("GET http://b.example/x", &["a.example"], Some("b.example")),
        ("2 GET http://b.example/x", &[], Some("b.example")),
        ("2 GET http://b.example/x", &["B.example"], Some("b.example")),
        ("2 GET http://b.example/x", &["a.example"], None),
        ("GET /", &[], None),
        ("GET /", &[""], None),
        ("GET /", &["a.example", "a.example"], None),
        ("GET /", &["a.example/x"], None),
        ("GET /", &["user@a.example"], None),
        ("GET http://user@b.example/", &["a.example"], None),
    ] {
        let lines: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        match (prepared(line, &lines), expected) {
            (Ok(parts), Some(expected)) => assert_eq!(parts.headers["host"], expected, "{line} {hosts:?}"),
            (Err(Failure::BadRequest(_)), None) => {}
            (other, _) => panic!("{line} {hosts:?}: {other:?}"),
        }
    }
}

#[test]
fn tunnels_and_traces_are_refused() {
    for line in ["CONNECT a.example:443", "TRACE /", "OPTIONS *"] {
        assert!(matches!(prepared(line, &[("host", "a")]), Err(Failure::NotImplemented(_))), "{line}");
    }
}

#[test]
fn a_loop_is_refused() {
    let via = |value: &str| prepared("GET /", &[("host", "a"), ("via", value)]).map(drop);
    assert_eq!(via("1.1 other, 2 portcullis-1 (x)"), Err(Failure::Loop));
    assert_eq!(via("1.1 portcullis-11, 1.1 portcullis"), Ok(()));
    assert_eq!(via(&["1.1 x"; MAX_VIA].join(",")), Ok(()));
    assert_eq!(via(&["1.1 x"; MAX_VIA + 1].join(",")), Err(Failure::Loop));
}

#[test]
fn max_forwards_is_counted_down() {
    let left = |value: &str| prepared("OPTIONS /", &[("host", "a"), ("max-forwards", value)]);
    assert_eq!(left("3").unwrap().headers["max-forwards"], "2");
    assert_eq!(left("0").unwrap_err(), Failure::Loop);
    assert!(matches!(left("-1"), Err(Failure::BadRequest(_))));
}

#[test]
fn cookies_of_http_2_are_one_line() {
    let parts = prepared("2 GET http://a/", &[("cookie", "a=1"), ("cookie", "b=2")]).unwrap();
    assert_eq!(parts.headers["cookie"], "a=1; b=2");
    assert_eq!(parts.headers.get_all("cookie").iter().count(), 1);
}

#[test]
fn only_a_get_of_http_1_1_is_upgraded() {
    for (line, expected) in [("GET /", true), ("POST /", false), ("2 GET http://a/", false)] {
        let lines = [("host", "a"), ("connection", "upgrade"), ("upgrade", "websocket")];
        let parts = prepared(line, &lines).unwrap();
        assert_eq!(parts.extensions.get::<Prepared>().unwrap().removed.is_websocket, expected, "{line}");
    }
}

#[test]
fn other_transfer_codings_are_not_forwarded() {
    let request = prepared("POST /", &[("host", "a"), ("transfer-encoding", "gzip, chunked")]);
    assert!(matches!(request, Err(Failure::NotImplemented(_))));
}

#[test]
fn trusted_header_is_not_one_of_connection() {
    let lines = [
        ("host", "a"),
        ("connection", "x-consumer-id, x-other"),
        ("x-consumer-id", "acme"),
        ("x-other", "1"),
    ];
    let headers = prepared("GET /", &lines).unwrap().headers;
    assert_eq!(headers.get("x-consumer-id").unwrap(), "acme");
    assert!(!headers.contains_key("x-other"));
}
