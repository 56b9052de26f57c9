//! Web sockets through the proxy, as bytes after the upgrade.

use std::time::Duration;

use portcullis::Limiter;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::start::{exchange, limits, raw, read_head, start, unlimited, write};

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(60);

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

/// An upstream that switches protocols and echoes bytes, in capitals.
async fn shouting() -> String {
    raw(|mut stream| async move {
        let head = read_head(&mut stream).await.to_ascii_lowercase();
        assert!(
            head.contains("\r\nconnection: upgrade\r\n") && head.contains("\r\nupgrade: websocket\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nsec-websocket-key: ") && !head.contains("keep-alive"), "{head}");
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nHELLO ";
        write(&mut stream, switch).await;
        let mut bytes = [0; 64];
        while let Ok(1..) =
            stream.read(&mut bytes).await.inspect(|read| bytes[..*read].make_ascii_uppercase())
        {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            stream.write_all(&bytes[..end]).await.unwrap();
            bytes.fill(0);
        }
    })
    .await
}

/// Opens a web socket; `None` if it was refused.
async fn open(addr: std::net::SocketAddr) -> Option<TcpStream> {
    let mut client = TcpStream::connect(addr).await.unwrap();
    // The first bytes come with the head, as an eager client sends them.
    write(&mut client, &format!("{UPGRADE}\r\nada ")).await;
    let head = read_head(&mut client).await.to_ascii_lowercase();
    if !head.starts_with("http/1.1 101 ") {
        return None;
    }
    assert!(
        head.contains("\r\nupgrade: websocket\r\n") && head.contains("\r\nconnection: upgrade\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
    Some(client)
}

/// The head of the response.
async fn head(addr: std::net::SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(addr).await.unwrap();
    write(&mut client, request).await;
    timeout(BOUND, read_head(&mut client)).await.expect("a response comes in time")
}

async fn read(client: &mut TcpStream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    timeout(BOUND, client.read_exact(&mut bytes)).await.expect("bytes come in time").unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[tokio::test]
async fn bytes_pass_both_ways_and_each_end_is_passed_on() {
    let proxy = start(unlimited(), &shouting().await, |proxy| proxy).await;
    let mut client = open(proxy.addr).await.unwrap();
    read(&mut client, "HELLO ADA ").await;
    for word in ["lovelace", "hopper"] {
        write(&mut client, word).await;
        read(&mut client, &word.to_ascii_uppercase()).await;
    }
    client.shutdown().await.unwrap();
    assert_eq!(timeout(BOUND, client.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    assert_eq!(proxy.stop().await, 0);
}

/// The permit of a policy in flight is held until the web socket ends, not until its response does.
#[tokio::test]
async fn a_web_socket_is_in_flight_until_it_ends() {
    let text = "[policy.open]\nstrategy = 'in_flight'\nlimit = 1\nkey = 'client_ip'\n";
    let limiter = Limiter::memory().with_rules(limits(text, None)).unwrap();
    let proxy = start(limiter, &shouting().await, |proxy| proxy).await;
    let mut first = open(proxy.addr).await.unwrap();
    read(&mut first, "HELLO ADA ").await;
    assert!(open(proxy.addr).await.is_none(), "one is open");
    drop(first);
    let opened = async {
        while open(proxy.addr).await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(BOUND, opened).await.expect("the permit is released");
}

#[tokio::test]
async fn a_web_socket_holds_a_place_with_the_upstream() {
    let proxy = start(unlimited(), &shouting().await, |proxy| proxy.max_requests(1)).await;
    let first = open(proxy.addr).await.unwrap();
    assert!(head(proxy.addr, &format!("{UPGRADE}\r\n")).await.starts_with("HTTP/1.1 503 "));
    drop(first);
}

#[tokio::test]
async fn an_idle_web_socket_is_closed() {
    // The echo has to come before.
    let idle = Duration::from_secs(3);
    let proxy = start(unlimited(), &shouting().await, |proxy| proxy.websocket_idle_timeout(idle)).await;
    let mut client = open(proxy.addr).await.unwrap();
    read(&mut client, "HELLO ADA ").await;
    assert_eq!(timeout(BOUND, client.read(&mut [0; 1])).await.unwrap().unwrap_or(0), 0);
}

/// What follows a refused upgrade is another request, and never bytes for the upstream.
#[tokio::test]
async fn a_refused_upgrade_opens_no_tunnel() {
    let upstream = raw(|mut stream| async move {
        while read_head(&mut stream).await.contains("via: ") {
            write(&mut stream, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    let smuggled = "GET /hidden HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let responses = exchange(proxy.addr, &format!("{UPGRADE}\r\n{smuggled}")).await;
    assert_eq!(responses.matches("x-ratelimit-remaining").count(), 2, "both are charged: {responses}");
    assert_eq!(responses.matches("HTTP/1.1 400 ").count(), 2, "{responses}");
}

#[tokio::test]
async fn an_upgrade_with_a_body_is_refused() {
    let proxy = start(unlimited(), &shouting().await, |proxy| proxy).await;
    let response = head(proxy.addr, &format!("{UPGRADE}Content-Length: 4\r\n\r\nbody")).await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
}
