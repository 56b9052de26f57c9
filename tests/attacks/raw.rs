//! Requests over raw connections, from addresses of the loopback network.

use std::error::Error;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use hyper::body::Body;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use portcullis::Limiter;
use portcullis::rules::{Format, Loader, Rules};
use portcullis_proxy::{ReverseProxy, Upstream};
use portcullis_servers::within_a_minute;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Serves an application that can read its clients' addresses.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

/// Starts a proxy with rules in front of a server.
pub(crate) async fn proxy(rules: &str, upstream: SocketAddr) -> SocketAddr {
    proxy_with(rules, upstream, |proxy| proxy).await
}

/// Like [`proxy`], with settings.
pub(crate) async fn proxy_with(
    rules: &str,
    upstream: SocketAddr,
    configure: impl FnOnce(ReverseProxy) -> ReverseProxy,
) -> SocketAddr {
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, rules)).unwrap();
    let limiter = Limiter::memory().with_rules(rules).unwrap();
    let proxy = ReverseProxy::new(&limiter, Upstream::new(&format!("http://{upstream}")).unwrap()).unwrap();
    let bound = configure(proxy).bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.serve(pending()));
    address
}

/// Begins HTTP/2 on a connection.
pub(crate) async fn http2<B>(stream: TcpStream) -> SendRequest<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Connects from 127.0.0.`host`. A connection that is dropped is reset.
pub(crate) async fn connect(host: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    let connection = socket.connect(to).await.unwrap();
    connection.set_zero_linger().unwrap();
    connection
}

/// A request to `/`. `header` is empty, or lines of headers without the last line end.
pub(crate) fn get(header: &str) -> String {
    let end = if header.is_empty() { "" } else { "\r\n" };
    format!("GET / HTTP/1.1\r\nhost: a\r\n{header}{end}\r\n")
}

/// Sends a request over its own connection and returns the response, head and body.
pub(crate) async fn exchange(host: u8, to: SocketAddr, request: &str) -> String {
    let mut connection = connect(host, to).await;
    let request = request.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    within_a_minute("end of the response", connection.read_to_string(&mut response)).await.unwrap();
    response
}

pub(crate) fn status(response: &str) -> u16 {
    response["HTTP/1.1 ".len()..][..3].parse().unwrap()
}

/// Sends requests over one connection without waiting for responses, and returns the statuses.
pub(crate) async fn pipelined(host: u8, to: SocketAddr, requests: impl Iterator<Item = String>) -> Vec<u16> {
    let (mut responses, mut connection) = connect(host, to).await.into_split();
    let requests: String = requests.collect();
    let last = "GET /absent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let writer = tokio::spawn(async move {
        connection.write_all((requests + last).as_bytes()).await.unwrap();
        connection
    });
    let mut text = String::new();
    within_a_minute("end of the responses", responses.read_to_string(&mut text)).await.unwrap();
    writer.await.unwrap();
    let mut statuses: Vec<_> =
        text.split("HTTP/1.1 ").skip(1).map(|response| response[..3].parse().unwrap()).collect();
    assert_eq!(statuses.pop(), Some(404));
    statuses
}

pub(crate) fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|other| **other == status).count()
}
