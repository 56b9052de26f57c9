//! Requests with bodies that are rejected before their bodies are read, on a connection of HTTP/2 that clients share.

use std::convert::Infallible;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use axum::Router;
use axum::http::{Method, Request, StatusCode};
use axum::routing::any;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::SendRequest;
use portcullis::key::Header;
use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
use portcullis_server::Server;
use portcullis_servers::within_a_minute;
use portcullis_tests::per_half_century;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::raw;

type Body = BoxBody<Bytes, Infallible>;

async fn connect(address: SocketAddr) -> SendRequest<Body> {
    raw::http2(TcpStream::connect(address).await.unwrap()).await
}

/// The body of two frames of a byte.
fn two_frames() -> Body {
    let frame = || Ok(Frame::data(Bytes::from_static(b"x")));
    StreamBody::new(tokio_stream::iter([frame(), frame()])).boxed()
}

/// The body of 100 kB, in frames that are as large as the server permits.
fn upload() -> Body {
    Full::from(vec![b'x'; 100_000]).boxed()
}

async fn send(client: &mut SendRequest<Body>, method: Method, name: &str, body: Body) -> StatusCode {
    let request = Request::builder().method(method).uri("http://localhost/").header("x-client", name);
    client.ready().await.unwrap();
    let response = client.send_request(request.body(body).unwrap()).await.unwrap();
    let status = response.status();
    // Streams that are dropped are reset by the client.
    response.into_body().collect().await.unwrap();
    status
}

/// Sends requests of one client on a connection, five at a time. Returns how many were answered by each status.
async fn flood(
    client: &SendRequest<Body>,
    name: &'static str,
    requests: u32,
    body: fn() -> Body,
) -> Vec<StatusCode> {
    let left = Arc::new(AtomicU32::new(requests));
    let mut senders = JoinSet::new();
    for _ in 0..5 {
        let (mut client, left) = (client.clone(), Arc::clone(&left));
        senders.spawn(async move {
            let mut seen = Vec::new();
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                let status = send(&mut client, Method::POST, name, body()).await;
                if !seen.contains(&status) {
                    seen.push(status);
                }
            }
            seen
        });
    }
    let mut seen: Vec<_> = within_a_minute("answers", senders.join_all()).await.concat();
    seen.sort_unstable();
    seen.dedup();
    seen
}

fn limit() -> RateLimitLayer {
    let policy = Policy::fixed_window("requests", per_half_century(1));
    Limiter::memory().layer(policy.by(Header::named("x-client")))
}

/// After as many rejected requests of one client, another one is answered on the same connection.
async fn holds(address: SocketAddr, name: &'static str, rejection: u16) {
    let mut client = connect(address).await;
    let _ = send(&mut client, Method::POST, name, two_frames()).await;
    assert_eq!(flood(&client, name, 2_500, two_frames).await, [rejection]);
    assert_eq!(send(&mut client, Method::POST, "other", two_frames()).await, 200);
}

#[tokio::test]
async fn a_rejected_client_does_not_end_the_connection_of_others() {
    let app = Router::new().route("/", any(async |body: Bytes| drop(body)));
    holds(raw::serve(app.clone().layer(limit())).await, "over", 429).await;
    let denied = |parts: &axum::http::request::Parts| parts.headers["x-client"] == "denied";
    holds(raw::serve(app.clone().layer(limit().deny(denied))).await, "denied", 403).await;
    // Not a key.
    holds(raw::serve(app.layer(limit())).await, "", 400).await;
}

#[tokio::test]
async fn shed_requests_do_not_end_the_connection_of_others() {
    let (entered, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let held = (Arc::clone(&entered), Arc::clone(&end));
    let app = Router::new()
        .route("/", any(async |body: Bytes| drop(body)))
        .route(
            "/held",
            any(async move || {
                held.0.notify_one();
                held.1.notified().await;
            }),
        )
        .layer(Limiter::memory().shed(1..=1));
    let address = raw::serve(app).await;
    let holder =
        tokio::spawn(async move { raw::exchange(1, address, &raw::get("").replace(" / ", " /held ")).await });
    within_a_minute("held request", entered.notified()).await;
    let client = connect(address).await;
    assert_eq!(flood(&client, "any", 2_500, two_frames).await, [503]);
    end.notify_one();
    assert_eq!(raw::status(&holder.await.unwrap()), 200);
    assert_eq!(send(&mut client.clone(), Method::POST, "any", two_frames()).await, 200);
}

/// A proxy with rules in front of a server. Returns its address.
pub(crate) async fn proxy(options: &str) -> SocketAddr {
    let upstream = raw::serve(Router::new().route("/", any(async |body: Bytes| drop(body)))).await;
    let rules = format!("[layer]\n{options}\n{RULES}");
    raw::proxy(&rules, upstream).await
}

const RULES: &str = r#"
[policy.requests]
strategy = "fixed_window"
quota = "1/5000d"
key = { header = "x-client" }

[policy.addresses]
strategy = "gcra"
quota = "1000000/s burst 1000000"
key = "client_ip"
"#;

#[tokio::test]
async fn a_proxy_keeps_the_connection_of_a_rejected_client() {
    let address = proxy("deny = { path = \"/denied\" }").await;
    holds(address, "over", 429).await;
    holds(proxy("").await, "", 400).await;
}

/// Nothing of them is discarded, as beyond the bounds.
#[tokio::test]
async fn a_proxy_keeps_the_connection_when_thousands_of_bodies_are_not_read() {
    let mut client = connect(proxy("discard_bodies = 0").await).await;
    assert_eq!(send(&mut client, Method::POST, "over", two_frames()).await, 200);
    assert_eq!(flood(&client, "over", 5_000, upload).await, [429]);
    assert_eq!(send(&mut client, Method::POST, "other", two_frames()).await, 200);
}

/// The answers of the pages, which read no bodies.
#[tokio::test]
async fn a_server_keeps_the_connection_when_thousands_of_bodies_are_not_read() {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::new(Limiter::memory()).http(any_port, Router::new()).bind().await.unwrap();
    let address = server.addresses().http.unwrap();
    tokio::spawn(server.run(pending()));
    let mut client = connect(address).await;
    assert_eq!(flood(&client, "any", 5_000, upload).await, [404]);
    assert_eq!(send(&mut client, Method::GET, "other", two_frames()).await, 404);
}
