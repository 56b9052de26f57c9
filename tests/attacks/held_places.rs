//! Connections and requests that one client holds, at servers that have a bound of all of them.

use std::convert::Infallible;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::routing::any;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Bytes, Frame};
use portcullis::{BodyRate, Limiter};
use portcullis_proxy::ReverseProxy;
use portcullis_server::{Limits, Server};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use crate::raw;

/// The connections of a server.
const CONNECTIONS: u32 = 16;

/// The requests that a proxy has with its upstream.
const REQUESTS: u32 = 64;

const RULES: &str = r#"
[policy.addresses]
strategy = "gcra"
quota = "1000000/s burst 1000000"
key = "client_ip"
"#;

const BEHIND_PROXIES: &str = r#"
[client_ip]
header = "x-forwarded-for"
trusted_proxies = ["127.0.0.1"]
"#;

async fn proxy(rules: &str) -> SocketAddr {
    proxy_with(rules, |proxy| proxy).await
}

async fn proxy_with(rules: &str, configure: impl FnOnce(ReverseProxy) -> ReverseProxy) -> SocketAddr {
    let upstream = raw::serve(Router::new().route("/", any(async |body: Bytes| drop(body)))).await;
    let configure =
        |proxy: ReverseProxy| configure(proxy.max_connections(CONNECTIONS).max_requests(REQUESTS));
    raw::proxy_with(rules, upstream, configure).await
}

async fn server(limits: Limits) -> SocketAddr {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let page = Router::new().route("/", any(async |body: Bytes| drop(body)));
    // Peers on the loopback are clients if proxies elsewhere are named.
    let server = Server::new(Limiter::memory()).http(any_port, page).proxies(["10.0.0.0/8".parse().unwrap()]);
    let server = server.limits(limits.max_connections(CONNECTIONS)).bind().await.unwrap();
    let address = server.addresses().http.unwrap();
    tokio::spawn(server.run(pending()));
    address
}

/// A request to a host that the server has.
fn get() -> String {
    raw::get("").replace("host: a", "host: localhost")
}

/// Opens connections from one address, and keeps each after the response to a request.
async fn keep(address: SocketAddr) -> Vec<TcpStream> {
    let mut kept = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = raw::connect(2, address).await;
        connection.write_all(get().as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert_ne!(within_a_minute("response", connection.read_buf(&mut head)).await.unwrap(), 0);
        }
        kept.push(connection);
    }
    kept
}

#[tokio::test]
async fn kept_connections_shut_out_nobody() {
    for address in [proxy(RULES).await, server(Limits::default()).await] {
        let _kept = keep(address).await;
        for host in 3..30 {
            assert_eq!(raw::status(&raw::exchange(host, address, &get()).await), 200);
        }
    }
}

#[tokio::test]
async fn kept_connections_of_http_2_shut_out_nobody() {
    for address in [proxy(RULES).await, server(Limits::default()).await] {
        let mut kept = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = raw::http2(raw::connect(2, address).await).await;
            let request = Request::get("http://localhost/").body(Empty::<Bytes>::new()).unwrap();
            client.ready().await.unwrap();
            let response = within_a_minute("response", client.send_request(request)).await.unwrap();
            assert_eq!(response.status(), 200);
            kept.push(client);
        }
        assert_eq!(raw::status(&raw::exchange(3, address, &get()).await), 200);
    }
}

/// A client that opens connections as fast as it can, beside those that it keeps.
#[tokio::test]
async fn new_connections_shut_out_nobody() {
    let address = proxy(RULES).await;
    let kept = keep(address).await;
    let flood = tokio::spawn(async move {
        let mut kept = kept;
        loop {
            kept.push(raw::connect(2, address).await);
            let excess = kept.len().saturating_sub(100);
            kept.drain(..excess);
        }
    });
    for host in 3..30 {
        assert_eq!(raw::status(&raw::exchange(host, address, &get()).await), 200);
    }
    flood.abort();
}

/// Begins an upload on a connection. Returns once the server reads it, or has closed the connection.
async fn begin_upload(address: SocketAddr, host: u8) -> TcpStream {
    let mut connection = raw::connect(host, address).await;
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    let _ = connection.write_all(head.as_bytes()).await;
    let _ = within_a_minute("answer", connection.read(&mut [0; 100])).await;
    connection
}

/// Addresses that hold all connections, each with a request in progress.
#[tokio::test]
async fn busy_connections_shut_out_nobody() {
    let hour = Duration::from_secs(3_600);
    let limits = Limits::default().body_rate(BodyRate::new(1, hour)).request_timeout(hour);
    for addresses in [1, 7] {
        let proxy = proxy_with(RULES, |proxy| proxy.body_rate(BodyRate::new(1, hour))).await;
        for address in [proxy, server(limits).await] {
            let mut busy = Vec::new();
            for host in 2..2 + addresses {
                let begun: JoinSet<_> = (0..CONNECTIONS).map(|_| begin_upload(address, host)).collect();
                busy.push(begun.join_all().await);
            }
            for host in 30..50 {
                assert_eq!(raw::status(&raw::exchange(host, address, &get()).await), 200, "{addresses}");
            }
        }
    }
}

/// One that answers the pings of the server, as libraries do.
#[tokio::test]
async fn connection_without_a_stream_ends() {
    let address = server(Limits::default().header_timeout(Duration::from_secs(1))).await;
    let client = raw::http2::<Empty<Bytes>>(raw::connect(2, address).await).await;
    let ended = async {
        while !client.is_closed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within_a_minute("end of the connection", ended).await;
}

/// A body of which nothing comes after its first byte.
fn unfinished() -> BoxBody<Bytes, Infallible> {
    let first = tokio_stream::once(Ok(Frame::data(Bytes::from_static(b"x"))));
    StreamBody::new(first.chain(tokio_stream::pending())).boxed()
}

/// Sends twice as many unfinished requests as there are places, on this number of connections. Returns the requests that wait, once
/// `refused` of them were refused.
async fn hold(
    address: SocketAddr,
    host: u8,
    client: &'static str,
    connections: u32,
    refused: u32,
) -> JoinSet<StatusCode> {
    let mut requests = JoinSet::new();
    for _ in 0..connections {
        let connection = raw::http2(raw::connect(host, address).await).await;
        for _ in 0..2 * REQUESTS / connections {
            let mut connection = connection.clone();
            requests.spawn(async move {
                let request = Request::post("http://a/").header("x-forwarded-for", client);
                connection.ready().await.unwrap();
                let response = connection.send_request(request.body(unfinished()).unwrap()).await;
                response.unwrap().status()
            });
        }
    }
    for _ in 0..refused {
        assert_eq!(within_a_minute("refusal", requests.join_next()).await.unwrap().unwrap(), 503);
    }
    requests
}

#[tokio::test]
async fn unfinished_requests_shut_out_nobody() {
    let address = proxy(RULES).await;
    let _held = hold(address, 2, "192.0.2.2", 4, REQUESTS).await;
    for host in 3..30 {
        assert_eq!(raw::status(&raw::exchange(host, address, &get()).await), 200);
    }
}

/// Each of them takes as many as it can before the next one.
#[tokio::test]
async fn requests_of_7_addresses_leave_a_place() {
    let address = proxy_with(RULES, |proxy| proxy.max_connections(64)).await;
    let mut held = Vec::new();
    for host in 2..9 {
        held.push(hold(address, host, "192.0.2.2", 1, REQUESTS).await);
    }
    for host in 30..50 {
        assert_eq!(raw::status(&raw::exchange(host, address, &get()).await), 200);
    }
}

/// The rules set how long the network of a client is.
#[tokio::test]
async fn networks_of_rules_share_their_places() {
    for (prefix, status) in [(64, 200), (48, 503)] {
        let rules = format!("{BEHIND_PROXIES}ipv6_prefix = {prefix}\n{RULES}");
        let address = proxy(&rules).await;
        let _held = hold(address, 1, "2001:db8:0:1::1", 4, REQUESTS).await;
        let request = raw::get("x-forwarded-for: 2001:db8:0:2::1");
        assert_eq!(raw::status(&raw::exchange(1, address, &request).await), status, "{prefix}");
    }
}

/// Connections of a named proxy have no client, and each of its requests has one.
#[tokio::test]
async fn one_client_of_a_proxy_shuts_out_no_other() {
    let address = proxy(&format!("{BEHIND_PROXIES}{RULES}")).await;
    let _held = hold(address, 1, "192.0.2.2", 4, REQUESTS).await;
    for client in 3..30 {
        let request = raw::get(&format!("x-forwarded-for: 192.0.2.{client}"));
        assert_eq!(raw::status(&raw::exchange(1, address, &request).await), 200);
    }
}

/// Bytes that come one at a time, for as long as the server likes.
#[tokio::test]
async fn slow_uploads_end() {
    let rate = BodyRate::new(1_000, Duration::from_secs(1));
    let limits = Limits::default().body_rate(rate).request_timeout(Duration::from_secs(3_600));
    let proxy = proxy_with(RULES, |proxy| proxy.body_rate(rate)).await;
    let server = server(limits).await;
    let claim = "content-type: application/grpc\r\n";
    // A client that claims to call gRPC gets the status of the call from the proxy, 4, which is the end of its time.
    for (address, method, claim, refusal) in [
        (proxy, "POST", "", "408"),
        (server, "POST", "", "400"),
        (proxy, "POST", claim, "200"),
        (server, "POST", claim, "400"),
        (server, "CONNECT", "", "400"),
    ] {
        let (mut answer, mut upload) = raw::connect(2, address).await.into_split();
        let head = format!("{method} / HTTP/1.1\r\nhost: localhost\r\n{claim}content-length: 100000\r\n\r\n");
        upload.write_all(head.as_bytes()).await.unwrap();
        let writer = tokio::spawn(async move {
            while upload.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let mut bytes = [0; 12];
        within_a_minute("answer", answer.read_exact(&mut bytes)).await.unwrap();
        assert_eq!(bytes, *format!("HTTP/1.1 {refusal}").as_bytes());
        let _ = within_a_minute("end of the connection", answer.read_to_end(&mut Vec::new())).await;
        writer.abort();
    }
}
