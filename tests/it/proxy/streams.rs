//! Bodies as streams: both ways, for both protocols, with their trailers.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use portcullis_proxy::Upstream;
use portcullis_tests::HttpClient;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::start::{exchange, raw, read_head, serve, start, start_to, text, unlimited, write};

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(60);

type Frames = mpsc::Sender<Result<Frame<Bytes>, std::convert::Infallible>>;

/// A body that a test sends frame by frame.
fn channel() -> (Frames, Body) {
    let (sender, frames) = mpsc::channel(1);
    (sender, Body::new(StreamBody::new(ReceiverStream::new(frames))))
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

/// Each part arrives before the next is sent: nothing between waits for the end of a body.
#[tokio::test]
async fn parts_pass_both_ways_at_once() {
    let upstream =
        serve(axum::Router::new().fallback(async |request: Request<Body>| request.into_body())).await;
    for is_http2 in [false, true] {
        let to = Upstream::new(&upstream).unwrap();
        let proxy = start_to(unlimited(), if is_http2 { to.http2() } else { to }, |proxy| proxy).await;
        for client in [HttpClient::http_1(), HttpClient::http_2()] {
            let (sender, body) = channel();
            sender.send(Ok(data("first"))).await.unwrap();
            let response = client.start(Request::post(format!("{proxy}/")), body).await;
            let mut replies = response.into_body();
            let mut next = async || timeout(BOUND, replies.frame()).await.expect("a part comes in time");
            assert_eq!(next().await.unwrap().unwrap().into_data().unwrap(), "first");
            for part in ["second", "third"] {
                sender.send(Ok(data(part))).await.unwrap();
                assert_eq!(next().await.unwrap().unwrap().into_data().unwrap(), part);
            }
            drop(sender);
            let rest = replies.collect().await.unwrap().to_bytes();
            assert!(rest.is_empty(), "{rest:?}");
        }
    }
}

/// An upload is not read faster than the upstream reads it.
#[tokio::test]
async fn an_upload_waits_for_the_upstream() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        // Reads nothing more, until the client gives up.
        std::future::pending::<()>().await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    let (sender, body) = channel();
    let client = HttpClient::http_2();
    let request = Request::post(format!("{proxy}/"));
    let sending = tokio::spawn(async move { client.start(request, body).await });
    let part = Bytes::from(vec![0; 65_536]);
    let mut sent = 0_usize;
    // What sockets and windows hold; without back pressure it would be all of it.
    while timeout(Duration::from_secs(1), sender.send(Ok(Frame::data(part.clone())))).await.is_ok() {
        sent += part.len();
        assert!(sent < 256 << 20, "{sent} bytes were taken");
    }
    sending.abort();
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let app = axum::Router::new().fallback(async |request: Request<Body>| {
        let body = request.into_body().collect().await.unwrap();
        let mut trailers = body.trailers().cloned().unwrap_or_default();
        trailers.insert("x-seen", "1".parse().unwrap());
        let frames = [data("body"), Frame::trailers(trailers)].map(Ok::<_, std::convert::Infallible>);
        let body = Body::new(StreamBody::new(tokio_stream::iter(frames)));
        ([("trailer", "x-sum, x-seen")], body)
    });
    let upstream = serve(app).await;
    for is_http2 in [false, true] {
        let to = Upstream::new(&upstream).unwrap();
        let proxy = start_to(unlimited(), if is_http2 { to.http2() } else { to }, |proxy| proxy).await;
        for client in [HttpClient::http_1(), HttpClient::http_2()] {
            let (sender, body) = channel();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "42".parse().unwrap());
            trailers.insert("x-forwarded-for", "6.6.6.6".parse().unwrap());
            tokio::spawn(async move {
                sender.send(Ok(data("body"))).await.unwrap();
                sender.send(Ok(Frame::trailers(trailers))).await.unwrap();
            });
            let request = Request::post(format!("{proxy}/")).header("te", "trailers");
            let request = request.header("trailer", "x-sum, x-forwarded-for");
            let body = client.start(request, body).await.into_body().collect().await.unwrap();
            let trailers = body.trailers().expect("the response has trailers");
            assert_eq!(
                (&trailers["x-sum"], &trailers["x-seen"]),
                (&"42".parse().unwrap(), &"1".parse().unwrap())
            );
            assert!(!trailers.contains_key("x-forwarded-for"));
            assert_eq!(body.to_bytes(), "body");
        }
    }
}

/// The client gets its 100 once the request is admitted, and a rejected one never sends its body.
#[tokio::test]
async fn a_client_that_expects_100_gets_it_when_it_is_admitted() {
    let upstream = serve(axum::Router::new().fallback(async |body: Bytes| body)).await;
    let limiter = portcullis::Limiter::memory()
        .with_rules(super::start::limits(&super::TWO.replace("2/18250d", "1/18250d"), None))
        .unwrap();
    let proxy = start(limiter, &upstream, |proxy| proxy).await;
    for expected in ["HTTP/1.1 100 Continue\r\n", "HTTP/1.1 429 "] {
        let mut client = tokio::net::TcpStream::connect(proxy.addr).await.unwrap();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
        write(&mut client, head).await;
        let first = timeout(BOUND, read_head(&mut client)).await.unwrap();
        assert!(first.starts_with(expected), "{first}");
        if expected.contains("100") {
            write(&mut client, "body").await;
            let head = read_head(&mut client).await;
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let mut body = [0; 4];
            client.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"body");
        }
    }
}

/// A GET may have a body, of unknown length as well.
#[tokio::test]
async fn the_body_of_a_get_is_forwarded() {
    let proxy = start(unlimited(), &super::echo().await, |proxy| proxy).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
        4\r\nbody\r\n0\r\n\r\n";
    assert!(exchange(proxy.addr, request).await.contains("\nbody"));
    let (sender, body) = channel();
    sender.send(Ok(data("body"))).await.unwrap();
    drop(sender);
    let response = HttpClient::http_2().send(Request::get(format!("{proxy}/")), body).await;
    assert!(text(response.body()).ends_with("\nbody"), "{response:?}");
}

/// Informational responses of the upstream are for the proxy alone.
#[tokio::test]
async fn informational_responses_are_skipped() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        write(&mut stream, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
            .await;
        write(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    let response = portcullis_tests::get(&format!("{proxy}/")).await;
    assert_eq!(response.status(), 204);
    assert!(!response.headers().contains_key("link"));
}

#[tokio::test]
async fn a_head_request_keeps_the_length() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 42\r\n\r\n").await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    for client in [HttpClient::http_1(), HttpClient::http_2()] {
        let response = client.send(Request::head(format!("{proxy}/")), ()).await;
        assert_eq!((response.headers()["content-length"].as_bytes(), response.body().len()), (&b"42"[..], 0));
    }
}

/// Each side gets one length, and it is that of the body.
#[tokio::test]
async fn a_body_has_one_length() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        let both = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        write(&mut stream, both).await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    for client in [HttpClient::http_1(), HttpClient::http_2()] {
        let response = client.send(Request::get(format!("{proxy}/")), ()).await;
        assert_eq!(text(response.body()), "hello");
        assert!(!response.headers().contains_key("content-length"), "{response:?}");
    }
    let proxy = start(unlimited(), &super::echo().await, |proxy| proxy).await;
    let request = Request::post(format!("{proxy}/")).header("content-length", "4");
    let response = HttpClient::http_2().send(request.header("content-length", "4"), "body").await;
    assert_eq!(text(response.body()).matches("content-length: 4\n").count(), 1, "{response:?}");
}
