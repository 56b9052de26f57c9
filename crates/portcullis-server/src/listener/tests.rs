use std::io::ErrorKind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(20);

/// A timeout of the server that a test waits for.
const SHORT: Duration = Duration::from_secs(1);

/// Like [`SHORT`], but after a whole request that a process which stops for a second must have sent before.
const LATER: Duration = Duration::from_secs(3);

struct Running {
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

async fn start(options: ListenerOptions, app: Router) -> Running {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let (addr, (stop, stopped)) = (listener.local_addr(), oneshot::channel());
    let ended = tokio::spawn(async move {
        let shutdown = async {
            let _ = stopped.await;
        };
        listener.serve(app, shutdown).await
    });
    Running { addr, stop, ended }
}

fn app() -> Router {
    let peer = get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string());
    Router::new().route("/peer", peer).route("/echo", post(async |body: Bytes| body))
}

async fn connect(addr: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// What the server sends until it closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match timeout(BOUND, stream.read_to_end(&mut bytes)).await.expect("the connection ends") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads until the text has come.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&bytes).contains(end) {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "{}", String::from_utf8_lossy(&bytes));
        }
    };
    timeout(BOUND, reading).await.expect("the server answers");
    String::from_utf8(bytes).unwrap()
}

const GET_PEER: &str = "GET /peer HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn service_knows_the_address_of_the_peer() {
    let server = start(ListenerOptions::default(), app()).await;
    let mut stream = connect(server.addr, GET_PEER).await;
    let answer = rest(&mut stream).await;
    assert!(answer.ends_with(&stream.local_addr().unwrap().to_string()), "{answer}");
}

/// A connection whose request needs one more byte.
async fn begun(server: &Running) -> TcpStream {
    let mut stream = connect(server.addr, "").await;
    let head = "POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut stream, "100 Continue\r\n\r\n").await;
    stream
}

#[tokio::test]
async fn connection_beyond_the_limit_waits_for_a_place() {
    let options = ListenerOptions {
        max_connections: 1,
        peers: Arc::new(|_| Peer::Caller),
        ..ListenerOptions::default()
    };
    let server = start(options, app()).await;
    let first = begun(&server).await;
    let mut second = connect(server.addr, GET_PEER).await;
    let mut byte = [0];
    assert!(timeout(Duration::from_millis(100), second.read(&mut byte)).await.is_err(), "it is not answered");
    drop(first);
    assert!(rest(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn idle_connection_makes_room() {
    let server = start(
        ListenerOptions {
            max_connections: 1,
            peers: Arc::new(|_| Peer::Caller),
            ..ListenerOptions::default()
        },
        app(),
    )
    .await;
    for text in ["", "GET /peer HTTP/1.1\r\nhost: a", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut idle = connect(server.addr, text).await;
        let answer = rest(&mut connect(server.addr, GET_PEER).await).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "it waits for the place of {text:?}");
        let _ = timeout(BOUND, idle.read_to_end(&mut Vec::new())).await.expect("the idle one has ended");
    }
}

#[tokio::test]
async fn http_2_connection_announces_its_end() {
    let server = start(
        ListenerOptions {
            max_connections: 1,
            peers: Arc::new(|_| Peer::Caller),
            ..ListenerOptions::default()
        },
        app(),
    )
    .await;
    let mut idle = connect(server.addr, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0").await;
    // The settings of the server show that it knows the protocol.
    assert_ne!(idle.read(&mut [0; 9]).await.unwrap(), 0);
    assert!(rest(&mut connect(server.addr, GET_PEER).await).await.starts_with("HTTP/1.1 200"));
    let mut bytes = Vec::new();
    let _ = timeout(BOUND, idle.read_to_end(&mut bytes)).await.expect("the idle one has ended");
    let go_away = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    assert!(bytes.windows(go_away.len()).any(|window| window == go_away), "{bytes:?}");
}

#[tokio::test]
async fn named_proxies_keep_their_connections() {
    let accepted = AtomicU32::new(0);
    let peers =
        Arc::new(
            move |_| if accepted.fetch_add(1, Ordering::Relaxed) == 0 { Peer::Proxy } else { Peer::Caller },
        );
    let server =
        start(ListenerOptions { max_connections: 2, peers, ..ListenerOptions::default() }, app()).await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(server.addr, "GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await;
        read_until(&mut stream, "127.0.0.1:").await;
        kept.push(stream);
    }
    // That of the proxy is idle for longer.
    assert!(rest(&mut connect(server.addr, GET_PEER).await).await.starts_with("HTTP/1.1 200"));
    assert!(rest(&mut kept.remove(1)).await.len() < 10, "only the rest of its response");
    kept[0].write_all(GET_PEER.as_bytes()).await.unwrap();
    assert!(rest(&mut kept[0]).await.contains("HTTP/1.1 200"));
}

type Http2 = (http2::SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>);

/// A connection of HTTP/2 whose client pings as often as it can.
async fn http_2(addr: SocketAddr, window: u32) -> Http2 {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(10))
        .keep_alive_while_idle(true);
    builder.initial_stream_window_size(window).adaptive_window(false);
    let io = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let (client, connection) = builder.handshake(io).await.unwrap();
    (client, tokio::spawn(connection))
}

fn large() -> Router {
    Router::new().route("/large", get(async || Bytes::from(vec![b'a'; LARGE])))
}

/// More than sockets keep.
const LARGE: usize = 16 << 20;

#[tokio::test]
async fn client_that_takes_nothing_is_cut_off() {
    let server = start(ListenerOptions { stall_timeout: SHORT, ..ListenerOptions::default() }, large()).await;
    for window in [0, 100] {
        let (mut client, connection) = http_2(server.addr, window).await;
        let request = Request::get("http://a/large").body(Empty::new()).unwrap();
        let response = timeout(BOUND, client.send_request(request)).await.unwrap().unwrap();
        let _ = timeout(BOUND, connection).await.expect("the connection ends");
        drop(response);
    }
}

#[tokio::test]
async fn response_that_is_written_is_whole() {
    let server = start(ListenerOptions { max_connections: 1, ..ListenerOptions::default() }, large()).await;
    let mut stream =
        connect(server.addr, "GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert_eq!(rest(&mut connect(server.addr, GET_PEER).await).await, "");
    assert!(head.len() + rest(&mut stream).await.len() > LARGE);

    let connected = async {
        loop {
            let (mut client, connection) = http_2(server.addr, 65_535).await;
            let request = Request::get("http://a/large").body(Empty::new()).unwrap();
            if let Ok(response) = client.send_request(request).await {
                return (client, connection, response);
            }
        }
    };
    let (_client, _connection, response) = timeout(BOUND, connected).await.expect("the place is free");
    assert_eq!(rest(&mut connect(server.addr, GET_PEER).await).await, "");
    let body = timeout(BOUND, response.collect()).await.unwrap().unwrap();
    assert_eq!(body.to_bytes().len(), LARGE);
}

#[tokio::test]
async fn busy_client_beyond_its_share_is_refused() {
    let server = start(ListenerOptions { max_connections: 4, ..ListenerOptions::default() }, app()).await;
    let mut busy = Vec::new();
    for _ in 0..3 {
        busy.push(begun(&server).await);
    }
    assert_eq!(rest(&mut connect(server.addr, GET_PEER).await).await, "");
    let mut first = busy.remove(0);
    first.write_all(b"x").await.unwrap();
    read_until(&mut first, "200 OK").await;
    drop(busy);
}

#[tokio::test]
async fn slow_head_ends_by_the_header_timeout() {
    let options = ListenerOptions { header_timeout: SHORT, ..ListenerOptions::default() };
    let server = start(options, app()).await;
    for text in ["", "PRI * HT", "GET /peer HTTP/1.1\r\nhost:"] {
        let mut stream = connect(server.addr, text).await;
        assert_eq!(rest(&mut stream).await, "", "{text:?}");
    }
    // Here a whole request has to come before.
    let server = start(ListenerOptions { header_timeout: LATER, ..ListenerOptions::default() }, app()).await;
    let mut stream = connect(server.addr, "GET /peer HTTP/1.1\r\nhost: a\r\n\r\n").await;
    read_until(&mut stream, "127.0.0.1:").await;
    stream.write_all(b"GET /").await.unwrap();
    assert!(rest(&mut stream).await.len() < 10, "only the rest of the first response");
}

#[tokio::test]
async fn idle_connection_ends_by_the_idle_timeout() {
    let options = ListenerOptions { idle_timeout: LATER, ..ListenerOptions::default() };
    let server = start(options, app()).await;
    let mut stream =
        connect(server.addr, "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi").await;
    assert!(rest(&mut stream).await.ends_with("hi"));
}

#[tokio::test]
async fn large_head_is_431() {
    let server =
        start(ListenerOptions { max_header_bytes: 8_192, ..ListenerOptions::default() }, app()).await;
    let head = format!("GET /peer HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(9_000));
    let mut stream = connect(server.addr, &head).await;
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn request_in_progress_is_finished_at_shutdown() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes) = (begun.clone(), go.clone());
    let slow = async move || {
        begins.notify_one();
        goes.notified().await;
        "done"
    };
    let server = start(ListenerOptions::default(), Router::new().route("/slow", get(slow))).await;
    let idle = connect(server.addr, "").await;
    let mut stream = connect(server.addr, "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    begun.notified().await;
    server.stop.send(()).unwrap();
    let mut idle = idle;
    rest(&mut idle).await;
    assert_eq!(TcpStream::connect(server.addr).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    go.notify_one();
    assert!(rest(&mut stream).await.ends_with("done"));
    assert_eq!(timeout(BOUND, server.ended).await.unwrap().unwrap(), Drained { cut_off: 0 });
}

#[tokio::test]
async fn request_beyond_the_drain_timeout_is_cut_off() {
    let begun = Arc::new(Notify::new());
    let begins = begun.clone();
    let endless = async move || {
        begins.notify_one();
        std::future::pending::<()>().await;
    };
    let options = ListenerOptions { drain_timeout: Duration::from_millis(50), ..ListenerOptions::default() };
    let server = start(options, Router::new().route("/endless", get(endless))).await;
    let mut stream = connect(server.addr, "GET /endless HTTP/1.1\r\nhost: a\r\n\r\n").await;
    begun.notified().await;
    server.stop.send(()).unwrap();
    assert_eq!(timeout(BOUND, server.ended).await.unwrap().unwrap(), Drained { cut_off: 1 });
    assert_eq!(rest(&mut stream).await, "");
}
