//! Proxies and upstreams.

use std::fmt;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use http_body_util::BodyExt as _;
use portcullis::rules::{Format, Loader, Rules};
use portcullis::{ClientIp, Limiter};
use portcullis_proxy::{ReverseProxy, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Rules, and the clients that a program sets.
pub(super) fn limits(text: &str, clients: Option<ClientIp>) -> Rules {
    let loader = Loader::text("limits.toml", Format::Toml, text);
    let loader = match clients {
        Some(clients) => loader.client_ip(clients),
        None => loader,
    };
    Rules::load(&loader).unwrap()
}

/// Rules that limit nothing that these tests send.
pub(super) fn unlimited() -> Limiter {
    let text = "[policy.all]\nstrategy = 'gcra'\nquota = '1000/s burst 1000'\nkey = 'client_ip'\n";
    Limiter::memory().with_rules(limits(text, None)).unwrap()
}

/// A proxy that serves. Its text is its URL.
pub(super) struct Proxy {
    pub(super) addr: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<u32>,
}

impl Proxy {
    /// Ends it, and returns the number of connections that were cut off.
    pub(super) async fn stop(self) -> u32 {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap()
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.addr)
    }
}

pub(super) async fn start(
    limiter: Limiter,
    upstream: &str,
    configure: impl FnOnce(ReverseProxy) -> ReverseProxy,
) -> Proxy {
    start_to(limiter, Upstream::new(upstream).unwrap(), configure).await
}

pub(super) async fn start_to(
    limiter: Limiter,
    upstream: Upstream,
    configure: impl FnOnce(ReverseProxy) -> ReverseProxy,
) -> Proxy {
    let proxy = configure(ReverseProxy::new(&limiter, upstream).unwrap());
    let bound = proxy.bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let (addr, (stop, stopped)) = (bound.local_addr(), oneshot::channel::<()>());
    let ended = tokio::spawn(bound.serve(async move { drop(stopped.await) }));
    Proxy { addr, stop, ended }
}

/// An upstream for HTTP/1.1 and HTTP/2 that responds with the request as text. Returns its URL.
pub(super) async fn echo() -> String {
    serve(Router::new().fallback(async |request: Request| {
        let (head, body) = request.into_parts();
        let mut text = format!("{} {} {:?}\n", head.method, head.uri, head.version);
        for (name, value) in &head.headers {
            writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
        let body = body.collect().await.unwrap();
        if let Some(trailers) = body.trailers() {
            writeln!(text, "trailers: {trailers:?}").unwrap();
        }
        text + "\n" + std::str::from_utf8(&body.to_bytes()).unwrap()
    }))
    .await
}

pub(super) async fn serve(app: Router) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

/// An upstream of which each connection is a function. Returns its URL.
pub(super) async fn raw<F>(connection: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream));
        }
    });
    url
}

/// Reads the head of a message.
pub(super) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

pub(super) async fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Sends bytes, and returns all that comes until the connection ends.
pub(super) async fn exchange(addr: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    write(&mut stream, text).await;
    let mut all = Vec::new();
    // A server that refuses a request resets the connection if there is more to read.
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8(all).unwrap()
}

pub(super) fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
