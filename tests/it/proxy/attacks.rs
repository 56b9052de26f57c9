//! Raw bytes of clients that want the proxy and the upstream to see different requests.

use std::net::SocketAddr;
use std::sync::Arc;

use portcullis::Limiter;
use portcullis_proxy::{ReverseProxy, Upstream};
use portcullis_servers::RedisServer;

use super::TWO;
use super::start::{echo, exchange, limits, raw, read_head, start, unlimited, write};

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

/// Whatever the client writes, the upstream gets requests of one meaning only, and each of them is charged.
#[tokio::test]
async fn requests_cannot_be_smuggled() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunked = format!("0\r\n\r\n{hidden}");
    for (name, head) in [
        ("both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n".to_owned()),
        ("both, reversed", format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", chunked.len())),
        ("a coding that is not known", "Transfer-Encoding: xchunked\r\n".to_owned()),
        ("two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned()),
        ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n".to_owned()),
        ("a compressed body", "Transfer-Encoding: gzip, chunked\r\n".to_owned()),
        ("a space before the colon", "Transfer-Encoding : chunked\r\n".to_owned()),
        ("a vertical tab", "Transfer-Encoding: \u{b}chunked\r\n".to_owned()),
        ("a folded line", "Transfer-Encoding:\r\n chunked\r\n".to_owned()),
        ("two lengths", "Content-Length: 0\r\nContent-Length: 5\r\n".to_owned()),
        ("a signed length", "Content-Length: +5\r\n".to_owned()),
        ("a list of lengths", "Content-Length: 0, 5\r\n".to_owned()),
    ] {
        let heads = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let upstream = raw(move |mut stream| {
            let seen = Arc::clone(&seen);
            async move {
                loop {
                    let head = read_head(&mut stream).await.to_ascii_lowercase();
                    if head.is_empty() {
                        break;
                    }
                    seen.lock().unwrap().push(head.clone());
                    if head.contains("transfer-encoding") {
                        assert_eq!(read_head(&mut stream).await, "0\r\n\r\n");
                    }
                    write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
            }
        })
        .await;
        let limiter =
            Limiter::memory().with_rules(limits(&TWO.replace("2/18250d", "100/18250d"), None)).unwrap();
        let proxy = start(limiter, &upstream, |proxy| proxy).await;
        let last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let request = format!("POST /first HTTP/1.1\r\nHost: a\r\n{head}\r\n{chunked}{last}");
        let responses = exchange(proxy.addr, &request).await;
        let heads = heads.lock().unwrap().clone();
        // Each request of the upstream is one that the limiter has admitted, and has one length.
        let admitted = responses.matches("x-ratelimit-remaining").count();
        let answered = responses.matches("HTTP/1.1 200").count();
        assert!(heads.len() <= admitted && answered == heads.len(), "{name}: {heads:?}\n{responses}");
        for head in &heads {
            let lengths =
                head.matches("content-length:").count() + head.matches("transfer-encoding:").count();
            assert!(lengths <= 1, "{name}: {head}");
            assert!(
                !head.contains("transfer-encoding") || head.contains("transfer-encoding: chunked\r\n"),
                "{head}"
            );
        }
        if !name.starts_with("both") {
            assert!(["400", "501"].contains(&status(&responses)), "{name}: {responses}");
            assert!(heads.is_empty(), "{name}: {heads:?}");
        }
    }
}

#[tokio::test]
async fn targets_that_are_not_of_this_server_are_refused() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    for (line, expected) in [
        ("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443", "501"),
        ("TRACE / HTTP/1.1\r\nHost: a", "501"),
        ("OPTIONS * HTTP/1.1\r\nHost: a", "501"),
        ("GET / HTTP/1.1", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", "400"),
        ("GET / HTTP/1.1\r\nHost: a@b", "400"),
        ("GET / HTTP/1.1\r\nHost: a/b", "400"),
        ("GET / HTTP/3.7\r\nHost: a", "400"),
        ("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0", "508"),
    ] {
        let response = exchange(proxy.addr, &format!("{line}\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(status(&response), expected, "{line}: {response}");
    }
    // The authority of an absolute target counts, and a host beside it does not.
    let absolute = "GET http://shop.example/x HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n";
    let seen = exchange(proxy.addr, absolute).await;
    assert!(seen.contains("GET /x HTTP/1.1\n") && seen.contains("host: shop.example\n"), "{seen}");
    assert!(!seen.contains("other.example"), "{seen}");
}

/// A tunnel of HTTP/2 through the proxy would not be limited.
#[tokio::test]
async fn an_upgrade_to_http_2_is_not_forwarded() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let seen = exchange(proxy.addr, request).await;
    assert_eq!(status(&seen), "200");
    assert!(!seen.contains("upgrade") && !seen.contains("http2-settings"), "{seen}");
}

#[tokio::test]
async fn a_loop_of_the_proxy_ends_at_once() {
    // A server that is not started reserves a port.
    let reserved = RedisServer::stopped_with(&[]).unwrap();
    let addr = SocketAddr::from(([127, 0, 0, 1], reserved.port()));
    let (url, limiter) = (format!("http://{addr}"), unlimited());
    let upstream = Upstream::new(&url).unwrap();
    let proxy = ReverseProxy::new(&limiter, upstream).unwrap();
    let bound = proxy.bind(addr).await.unwrap();
    let served = tokio::spawn(bound.serve(std::future::pending()));
    let response = portcullis_tests::get(&url).await;
    assert_eq!(response.status(), 508);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    served.abort();
}
