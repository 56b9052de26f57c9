//! The client address, case by case: from the extractor, and from a server that reads the bytes from a socket.

mod cases;

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::{Router, routing::get};
use portcullis::key::{Header, IpPrefix, Key, Networks, Trust};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use cases::{CASES, Case, long_cases};

/// The peer of every connection.
const PEER: &str = "127.0.0.1";

fn clients(source: &str, trust: &str) -> ClientIp {
    let trust = match trust.strip_prefix("hops ") {
        Some(hops) => Trust::hops(hops.parse().unwrap()),
        None => Trust::networks(Networks::new(trust.split_whitespace()).unwrap()),
    };
    match source {
        "peer" => ClientIp::peer(),
        "x-forwarded-for" => ClientIp::behind(trust).x_forwarded_for(),
        "forwarded" => ClientIp::behind(trust).forwarded(),
        header => ClientIp::behind(trust).header(header),
    }
}

/// Parses header lines as a server does, without white space around the values.
fn headers(lines: &[&[u8]]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':').unwrap();
        let name = HeaderName::from_bytes(&line[..colon]).unwrap();
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).unwrap());
    }
    headers
}

fn key(limiter: &Limiter, bucket: IpPrefix) -> Key {
    limiter.key(|key| bucket.write(key)).unwrap()
}

/// The response of a server on a real socket to a request with these header lines.
async fn answer(app: Router, lines: &[&[u8]]) -> String {
    answer_over(app, (PEER, PEER), lines).await
}

/// Like [`answer`], but with a server on the address `listening` and a client that connects to `connecting`.
async fn answer_over(app: Router, (listening, connecting): (&str, &str), lines: &[&[u8]]) -> String {
    let listener = TcpListener::bind((listening, 0)).await.unwrap();
    let address = (connecting, listener.local_addr().unwrap().port());
    let server = tokio::spawn(
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).into_future(),
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".to_vec();
    for line in lines {
        request.extend_from_slice(line);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    within_a_minute("end of the response", stream.read_to_end(&mut answer)).await.unwrap();
    server.abort();
    String::from_utf8(answer).unwrap()
}

async fn check(case: &Case<'_>) {
    let Case { source, trust, lines, expected } = *case;
    let shown: Vec<_> =
        lines.iter().map(|line| String::from_utf8_lossy(&line[..line.len().min(200)])).collect();
    let found = clients(source, trust).find(PEER.parse().unwrap(), &headers(lines));

    let limiter = Limiter::memory();
    let policy = Policy::gcra("all", Quota::per_minute(1));
    let app = Router::new()
        .route("/", get(|| async { "inner" }))
        .layer(limiter.layer(policy.clone().by(clients(source, trust))));
    let answer = answer(app, lines).await;

    if let Ok(address) = expected.parse::<IpAddr>() {
        assert_eq!(found, Ok(address), "{shown:?}");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{shown:?}: {answer}");
        let key = key(&limiter, ClientIp::peer().prefix(address));
        assert_eq!(
            limiter.peek(&policy, key).await.unwrap().remaining(),
            0,
            "{shown:?} is charged to another address"
        );
    } else {
        let error = found.expect_err(&format!("{shown:?}")).to_string();
        assert!(error.contains(expected), "{shown:?}: {error}");
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.trim_end().ends_with(&error),
            "{shown:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn every_case_holds_for_the_extractor_and_for_a_server() {
    for case in CASES {
        check(case).await;
    }
    for (source, line, expected) in long_cases() {
        let trust = "127.0.0.0/8 10.0.0.0/8";
        check(&Case { source, trust, lines: &[line.as_bytes()], expected }).await;
    }
    assert!(CASES.len() >= 60, "{}", CASES.len());
}

/// A server that listens on all IPv6 addresses also has IPv4 clients, with IPv4-mapped addresses.
#[tokio::test]
async fn ipv4_mapped_peers_of_ipv6_sockets_count_as_ipv4() {
    let lines: &[&[u8]] = &[b"X-Forwarded-For: 6.6.6.6, 2001:db8::1"];
    for (connecting, source, client) in [
        ("127.0.0.1", "peer", "127.0.0.1"),
        ("127.0.0.1", "x-forwarded-for", "2001:db8::1"),
        ("::1", "peer", "::1"),
        ("::1", "x-forwarded-for", "::1"),
    ] {
        let limiter = Limiter::memory();
        let policy = Policy::gcra("all", Quota::per_minute(1));
        let app = Router::new()
            .route("/", get(|| async { "inner" }))
            .layer(limiter.layer(policy.clone().by(clients(source, "127.0.0.0/8"))));
        let answer = answer_over(app, ("::", connecting), lines).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let key = key(&limiter, ClientIp::peer().prefix(client.parse().unwrap()));
        assert_eq!(limiter.peek(&policy, key).await.unwrap().remaining(), 0, "{connecting} by {source}");
    }
}

#[tokio::test]
async fn invalid_header_bytes_never_reach_the_layer() {
    for line in [&b"X-Forwarded-For: 1.2.3.4\0"[..], b"X-Forwarded-For : 1.2.3.4", b"X-Forwarded-For: 1\r2"] {
        let app =
            Router::new().route("/", get(|| async { "inner" })).layer(Limiter::memory().layer(
                Policy::gcra("all", Quota::per_minute(1)).by(clients("x-forwarded-for", "127.0.0.0/8")),
            ));
        let answer = answer(app, &[line]).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && !answer.contains("x-ratelimit"), "{answer}");
    }
}

/// A client that invents an API key per request has a fresh budget per key, but a single budget for its address.
#[tokio::test]
async fn address_limit_stops_invented_api_keys() {
    let limiter = Limiter::memory();
    let per_key = Policy::gcra("per-key", Quota::per_hour(1).burst(5));
    let per_address = Policy::gcra("per-address", Quota::per_hour(1).burst(20));
    let by_key = || limiter.layer(per_key.clone().by(Header::named("x-api-key")));
    let statuses = async |layer: portcullis::RateLimitLayer| {
        let mut passed = 0;
        for number in 0..100 {
            let app = Router::new().route("/", get(|| async { "inner" })).layer(layer.clone());
            let line = format!("x-api-key: made-up-{number}");
            passed += usize::from(answer(app, &[line.as_bytes()]).await.starts_with("HTTP/1.1 200 "));
        }
        passed
    };
    assert_eq!(statuses(by_key()).await, 100, "without an address limit every key has a fresh budget");
    let paired = by_key().and(per_address.by(ClientIp::peer()));
    assert_eq!(statuses(paired).await, 20);
}
