//! A service on a Unix socket, whose peers have no address.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::extract::connect_info::Connected;
use axum::middleware::map_request;
use axum::routing::get;
use axum::serve::IncomingStream;
use portcullis::key::Trust;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// Connection info of the service's own type.
#[derive(Clone)]
struct Peer;

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(_: IncomingStream<'_, UnixListener>) -> Self {
        Self
    }
}

async fn insert_address(mut request: Request) -> Request {
    request.extensions_mut().insert(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    request
}

fn app(clients: ClientIp) -> Router {
    let limit = Limiter::memory().layer(Policy::fixed_window("all", Quota::per_day(1)).by(clients));
    Router::new().route("/", get(async || "here")).layer(limit)
}

/// The responses of a server to one request for each header.
async fn responses<const N: usize>(name: &str, app: Router, headers: [&str; N]) -> [String; N] {
    let path = std::env::temp_dir().join(format!("portcullis-{name}-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let server =
        tokio::spawn(axum::serve(listener, app.into_make_service_with_connect_info::<Peer>()).into_future());
    let mut responses = [const { String::new() }; N];
    for (response, header) in responses.iter_mut().zip(headers) {
        let mut client = UnixStream::connect(&path).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{header}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client.read_to_string(response).await.unwrap();
    }
    server.abort();
    std::fs::remove_file(path).unwrap();
    responses
}

#[tokio::test]
async fn response_names_what_a_unix_socket_needs() {
    let [response] = responses("no-address", app(ClientIp::peer()), [""]).await;
    assert!(response.starts_with("HTTP/1.1 500 "), "{response}");
    if cfg!(debug_assertions) {
        assert!(response.contains("for a Unix socket, or a listener with connection info"), "{response}");
    }
}

#[tokio::test]
async fn inserted_address_makes_the_proxy_trusted() {
    let clients = ClientIp::behind(Trust::networks(["127.0.0.1"])).header_or_peer("x-real-ip");
    let app = app(clients).layer(map_request(insert_address));
    let [ada, bob] = ["x-real-ip: 192.0.2.1\r\n", "x-real-ip: 192.0.2.2\r\n"];
    let responses = responses("address", app, [ada, ada, bob, "", ""]).await;
    let statuses = responses.map(|response| response[9..12].to_owned());
    assert_eq!(statuses, ["200", "429", "200", "200", "429"]);
}
