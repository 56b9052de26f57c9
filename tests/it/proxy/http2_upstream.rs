//! The connections of HTTP/2 to an upstream, which all clients share.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::get;
use portcullis_proxy::Upstream;
use portcullis_tests::HttpClient;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tonic::service::Routes;
use tonic::transport::Server;

use super::start::{serve, start_to, unlimited, write};
use crate::grpc::listen;

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(60);

/// Responses that no client reads take the windows of their own streams, and not the window of the connection.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_stall_no_others() {
    let chunks = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&chunks);
    let flood = async || {
        let chunk = move || {
            chunks.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from_static(&[0; 16_384]))
        };
        Body::from_stream(tokio_stream::iter(std::iter::repeat_with(chunk)))
    };
    let app = Router::new().route("/flood", get(flood)).route("/", get(async || vec![0; 65_536]));
    let upstream = Upstream::new(&serve(app).await).unwrap().http2();
    let proxy = start_to(unlimited(), upstream, |proxy| proxy).await;
    let mut hostile = Vec::new();
    for _ in 0..4 {
        let mut client = TcpStream::connect(proxy.addr).await.unwrap();
        write(&mut client, "GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").await;
        hostile.push(client);
    }
    let honest = HttpClient::http_1();
    // Until the upstream can send the others nothing more.
    let mut quiet = 0;
    while quiet < 10 {
        let before = sent.load(Ordering::Relaxed);
        let response = honest.send(Request::get(format!("{proxy}/")), ());
        let response = timeout(BOUND, response).await.expect("the response comes whole");
        assert_eq!(response.body().len(), 65_536);
        let is_quiet = before > 0 && sent.load(Ordering::Relaxed) == before;
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
}

/// No request waits for the end of another because the upstream takes few of them on a connection.
#[tokio::test]
async fn full_connection_is_joined_by_another() {
    let (arrived, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (arrival, released) = (Arc::clone(&arrived), Arc::clone(&release));
    let hold = async move || {
        arrived.add_permits(1);
        drop(release.acquire().await);
    };
    let app = Router::new().route("/hold", get(hold)).route("/", get(async || ()));
    let (incoming, url) = listen().await;
    let opened = Arc::new(AtomicUsize::new(0));
    let connections = Arc::clone(&opened);
    let incoming = incoming.map(move |stream| {
        opened.fetch_add(1, Ordering::Relaxed);
        stream
    });
    let server = Server::builder().max_concurrent_streams(2).add_routes(Routes::from(app));
    tokio::spawn(server.serve_with_incoming(incoming));
    let proxy = start_to(unlimited(), Upstream::new(&url).unwrap().http2(), |proxy| proxy).await;
    // With the first response, the proxy has the settings of the upstream.
    assert_eq!(HttpClient::http_1().send(Request::get(format!("{proxy}/")), ()).await.status(), 200);
    let requests = (0..5).map(|_| {
        let url = format!("{proxy}/hold");
        tokio::spawn(async move { HttpClient::http_2().send(Request::get(url), ()).await.status() })
    });
    let requests: Vec<_> = requests.collect();
    let all = timeout(BOUND, arrival.acquire_many(5)).await;
    drop(all.expect("all requests are with the upstream at once"));
    assert_eq!(connections.load(Ordering::Relaxed), 3);
    released.add_permits(5);
    for request in requests {
        assert_eq!(request.await.unwrap(), 200);
    }
    assert_eq!(proxy.stop().await, 0);
}
