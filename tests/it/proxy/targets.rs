//! Paths and queries with bytes that no URI has, as clients write them.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use portcullis::Limiter;
use portcullis_proxy::Upstream;
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::start::{echo, limits, serve, start, start_to, unlimited};

/// Sends a request over HTTP/1.1, and returns the response.
async fn http1(addr: SocketAddr, target: &[u8]) -> String {
    let end = b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(&[b"GET ", target, end].concat()).await.unwrap();
    let mut all = Vec::new();
    // A server that refuses a request resets the connection if there is more to read.
    let _ = within_a_minute("end of the response", stream.read_to_end(&mut all)).await;
    String::from_utf8(all).unwrap()
}

/// Sends a request over HTTP/2, and returns the body of the response, or the code of the error that ends the stream or the connection.
async fn http2(addr: SocketAddr, target: &[u8]) -> Result<String, u8> {
    let length = u8::try_from(target.len()).unwrap();
    let head = [&[0x82, 0x86, 0x01, 1, b'a', 0x04, length][..], target].concat();
    let headers = [&[0, 0, u8::try_from(head.len()).unwrap(), 1, 5, 0, 0, 0, 1][..], &head].concat();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &headers].concat()).await.unwrap();
    let mut body = String::new();
    loop {
        let mut frame = [0; 9];
        within_a_minute("frame", stream.read_exact(&mut frame)).await.unwrap();
        let [high, middle, low, kind, flags, ..] = frame;
        let mut payload = vec![0; usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)];
        within_a_minute("payload", stream.read_exact(&mut payload)).await.unwrap();
        match kind {
            3 => return Err(payload[3]),
            7 => return Err(payload[7]),
            0 => body += std::str::from_utf8(&payload).unwrap(),
            _ => {}
        }
        if kind <= 1 && flags & 1 == 1 {
            return Ok(body);
        }
    }
}

/// Whatever the server of HTTP reads, the upstream gets as a URI.
#[tokio::test]
async fn raw_bytes_are_forwarded_in_escapes() {
    let (url, limiter) = (echo().await, unlimited());
    for upstream in [Upstream::new(&url).unwrap(), Upstream::new(&url).unwrap().http2()] {
        let proxy = start_to(limiter.clone(), upstream, |proxy| proxy).await;
        for (target, expected) in [
            (&b"/a?x=`{|}\\^[]"[..], "/a?x=%60%7B%7C%7D%5C%5E%5B%5D"),
            (b"/a\"{|}\\^[]", "/a%22%7B%7C%7D%5C%5E%5B%5D"),
            ("/é?é=é&x".as_bytes(), "/%C3%A9?%C3%A9=%C3%A9&x"),
            (b"/%7b%c3%a9%?%22%zz%5b{", "/%7b%c3%a9%?%22%zz%5b%7B"),
            (b"/-._~!$&'()*+,;=:@/?-._~!$&'()*+,;=:@/?", "/-._~!$&'()*+,;=:@/?-._~!$&'()*+,;=:@/?"),
        ] {
            let seen = [http1(proxy.addr, target).await, http2(proxy.addr, target).await.unwrap()];
            for seen in seen {
                let uri = seen.lines().find_map(|line| line.strip_prefix("GET ")).unwrap_or(&seen);
                let path = uri.strip_prefix("http://a").unwrap_or(uri);
                assert!(path.starts_with(&format!("{expected} HTTP/")), "{}: {uri}", target.escape_ascii());
            }
        }
        assert_eq!(proxy.stop().await, 0);
    }
}

/// They are refused before the proxy, or a service with the layer, gets the request.
#[tokio::test]
async fn bytes_of_no_request_are_refused() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    let router = Router::new().fallback(async || ()).layer(unlimited().rules().unwrap().layer());
    let service = serve(router).await["http://".len()..].parse().unwrap();
    for target in [
        &b"/a?x=\""[..],
        b"/a?x=<",
        b"/a?x=>",
        b"/a?x=\xe9",
        b"/a?x=\xc3",
        b"/a?x=\x7f",
        b"/a<",
        b"/a>",
        b"/a`",
        b"/a\xe9",
    ] {
        for addr in [proxy.addr, service] {
            let response = http1(addr, target).await;
            assert!(response.starts_with("HTTP/1.1 400 "), "{}: {response}", target.escape_ascii());
            assert_eq!(http2(addr, target).await, Err(PROTOCOL_ERROR), "{}", target.escape_ascii());
        }
    }
}

const PROTOCOL_ERROR: u8 = 1;

#[tokio::test]
async fn long_target_is_refused_without_a_charge() {
    let rules = "[policy.all]\nstrategy = 'fixed_window'\nquota = '1/18250d'\nkey = 'client_ip'\n";
    let limiter = Limiter::memory().with_rules(limits(rules, None)).unwrap();
    let proxy = start(limiter, &echo().await, |proxy| proxy).await;
    let long = http1(proxy.addr, format!("/?{}", "{".repeat(22_000)).as_bytes()).await;
    assert!(long.starts_with("HTTP/1.1 400 ") && long.contains("too long in percent encoding"), "{long}");
    assert!(
        http1(proxy.addr, format!("/?{}", "x".repeat(22_000)).as_bytes()).await.starts_with("HTTP/1.1 200 ")
    );
}

#[tokio::test]
async fn raw_bytes_are_counted_as_their_escapes() {
    let rules = "
        [policy.all]\nstrategy = 'fixed_window'\nquota = '100/18250d'\nkey = 'client_ip'\n
        [policy.path]\nstrategy = 'fixed_window'\nquota = '1/18250d'\nkey = { all = ['client_ip', 'path'] }\n\
        match = { path = '/path/{*rest}' }\n
        [policy.query]\nstrategy = 'fixed_window'\nquota = '1/18250d'\nkey = { all = ['client_ip', { query = 'q' }] }\n\
        match = { path = '/query' }\n
        [policy.condition]\nstrategy = 'fixed_window'\nquota = '1/18250d'\nkey = 'client_ip'\n\
        match = { path = '/condition', query = { q = { equals = 'é{}' } } }\n";
    let limiter = || Limiter::memory().with_rules(limits(rules, None)).unwrap();
    let proxy = start(limiter(), &echo().await, |proxy| proxy).await;
    let service = Router::new().fallback(async |_: Request| ()).layer(limiter().rules().unwrap().layer());
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, service).into_future());
    for addr in [proxy.addr, addr] {
        for (raw, escaped, other) in [
            ("/path/é", "/path/%C3%A9", "/path/e"),
            ("/path/a\"{|}^[]", "/path/a%22%7b%7c%7D%5E%5B%5D", "/path/a%22"),
            ("/query?q=é`{|}\\^[]", "/query?q=%C3%A9%60%7B%7C%7D%5C%5E%5B%5D", "/query?q=e"),
            ("/condition?q=é{}", "/condition?q=%c3%a9%7b%7d", "/condition?q=e"),
        ] {
            let mut statuses = Vec::new();
            for target in [raw, escaped, other] {
                statuses.push(http1(addr, target.as_bytes()).await[9..12].to_owned());
            }
            assert_eq!(statuses, ["200", "429", "200"], "{raw}");
        }
    }
}
