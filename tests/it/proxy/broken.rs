//! Upstreams that fail, and clients that leave.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use http_body_util::BodyExt as _;
use portcullis_servers::RedisServer;
use portcullis_tests::{HttpClient, get};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::start::{exchange, raw, read_head, start, text, unlimited, write};

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(60);
/// The proxy's bound where a test waits for its end.
const SOON: Duration = Duration::from_millis(100);
/// The proxy's bound where something has to happen before its end.
const LATER: Duration = Duration::from_secs(3);

#[tokio::test]
async fn absent_upstream_is_a_bad_gateway() {
    let reserved = RedisServer::stopped_with(&[]).unwrap();
    let url = format!("http://127.0.0.1:{}", reserved.port());
    let proxy = start(unlimited(), &url, |proxy| proxy).await;
    let response = get(&format!("{proxy}/")).await;
    assert_eq!(response.status(), 502);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let expected = r#"{"type":"about:blank","title":"Bad Gateway","status":502,"detail":"the upstream cannot be reached"}"#;
    assert_eq!(text(response.body()).trim_end(), expected);
    for client in [HttpClient::http_1(), HttpClient::http_2()] {
        let response = client.send(Request::head(format!("{proxy}/")), ()).await;
        assert_eq!((response.status().as_u16(), response.body().len()), (502, 0));
    }
    let request = Request::post(format!("{proxy}/a.B/C")).header("content-type", "application/grpc");
    let response = HttpClient::http_2().send(request, ()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["grpc-status"]),
        (200, &"14".parse().unwrap())
    );
}

#[tokio::test]
async fn silent_upstream_is_a_gateway_timeout() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.response_timeout(SOON)).await;
    assert_eq!(get(&format!("{proxy}/")).await.status(), 504);
    let request = Request::post(format!("{proxy}/a.B/C")).header("content-type", "application/grpc");
    let response = HttpClient::http_1().send(request, ()).await;
    assert_eq!(response.headers()["grpc-status"], "4");
}

/// A client that stops in the middle of its request is not the fault of the upstream.
#[tokio::test]
async fn stalled_upload_is_a_request_timeout() {
    let upstream = raw(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.idle_timeout(SOON)).await;
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
    let response = exchange(proxy.addr, request).await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
}

/// A request without an end is not the fault of the upstream either, and is not counted as such.
#[tokio::test]
async fn malformed_body_is_a_bad_request() {
    let upstream = raw(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    for body in ["zz\r\n", "2\r\nok\r\nzz\r\n", "2;a\nb\r\nok\r\n0\r\n\r\n"] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let response = exchange(proxy.addr, &request).await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{body:?}: {response}");
    }
}

#[tokio::test]
async fn garbage_of_the_upstream_is_a_bad_gateway() {
    for garbage in [
        "\0\0\0",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        "",
    ] {
        let upstream = raw(move |mut stream| async move {
            read_head(&mut stream).await;
            write(&mut stream, garbage).await;
        })
        .await;
        let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
        assert_eq!(get(&format!("{proxy}/")).await.status(), 502, "{garbage:?}");
    }
}

#[tokio::test]
async fn both_sides_refuse_too_large_heads() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        let long = "x".repeat(40_000);
        write(&mut stream, &format!("HTTP/1.1 200 OK\r\nlong: {long}\r\ncontent-length: 0\r\n\r\n")).await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.max_header_bytes(16_384)).await;
    assert_eq!(get(&format!("{proxy}/")).await.status(), 502);
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nlong: {}\r\n\r\n", "x".repeat(20_000));
    assert!(exchange(proxy.addr, &request).await.starts_with("HTTP/1.1 431 "));
}

/// The client must not take half a response for a whole one.
#[tokio::test]
async fn broken_upstream_body_breaks_the_response() {
    for (head, body) in [
        ("content-length: 10", "3\r\nabc\r\n"),
        ("content-length: 10", ""),
        ("transfer-encoding: chunked", "3\r\nabc\r\n"),
        ("transfer-encoding: chunked", ""),
    ] {
        let upstream = raw(move |mut stream| async move {
            read_head(&mut stream).await;
            write(&mut stream, &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")).await;
        })
        .await;
        let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
        for client in [HttpClient::http_1(), HttpClient::http_2()] {
            let response = client.start(Request::get(format!("{proxy}/")), ()).await;
            assert_eq!(response.status(), 200);
            assert!(
                timeout(BOUND, response.into_body().collect()).await.unwrap().is_err(),
                "{head} {body:?}"
            );
        }
    }
}

#[tokio::test]
async fn body_that_stops_is_cut_off() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
        std::future::pending::<()>().await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.idle_timeout(LATER)).await;
    let response = HttpClient::http_2().start(Request::get(format!("{proxy}/")), ()).await;
    assert!(timeout(BOUND, response.into_body().collect()).await.unwrap().is_err());
}

/// Also if it does not read: then nothing asks for the body of the response.
#[tokio::test]
async fn unread_response_frees_the_upstream() {
    let left = Arc::new(Notify::new());
    let noticed = Arc::clone(&left);
    let upstream = raw(move |mut stream| {
        let left = Arc::clone(&left);
        async move {
            read_head(&mut stream).await;
            write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await;
            let bytes = vec![0; 65_536];
            while tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes).await.is_ok() {}
            left.notify_one();
        }
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.idle_timeout(SOON)).await;
    let mut client = TcpStream::connect(proxy.addr).await.unwrap();
    write(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    timeout(BOUND, noticed.notified()).await.expect("the upstream is freed");
    drop(client);
}

/// Before the response, and in the middle of it.
#[tokio::test]
async fn client_that_leaves_cancels_the_upstream() {
    for begin in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let (arrived, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (arrival, end) = (Arc::clone(&arrived), Arc::clone(&left));
        let upstream = raw(move |mut stream| {
            let (arrived, left) = (Arc::clone(&arrived), Arc::clone(&left));
            async move {
                read_head(&mut stream).await;
                write(&mut stream, begin).await;
                arrived.notify_one();
                // The end of the connection, or its reset.
                let _ = stream.read_u8().await;
                left.notify_one();
            }
        })
        .await;
        let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
        let mut client = TcpStream::connect(proxy.addr).await.unwrap();
        write(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        timeout(BOUND, arrival.notified()).await.unwrap();
        drop(client);
        timeout(BOUND, end.notified()).await.expect("the upstream sees that the client has left");
    }
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused() {
    let (arrived, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (arrival, answered) = (Arc::clone(&arrived), Arc::clone(&answer));
    let upstream = raw(move |mut stream| {
        let (arrived, answer) = (Arc::clone(&arrived), Arc::clone(&answer));
        async move {
            read_head(&mut stream).await;
            arrived.notify_one();
            answer.notified().await;
            write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.max_requests(1)).await;
    let url = format!("{proxy}/");
    let first = tokio::spawn({
        let url = url.clone();
        async move { get(&url).await.status() }
    });
    timeout(BOUND, arrival.notified()).await.unwrap();
    assert_eq!(get(&url).await.status(), 503);
    answered.notify_one();
    assert_eq!(first.await.unwrap(), 200);
    answered.notify_one();
    assert_eq!(get(&url).await.status(), 200, "the place is free again");
}

/// An upstream that responds early would otherwise be left with uploads that no limit counts and no timeout ends.
#[tokio::test]
async fn upload_after_the_response_is_cut_off() {
    let left = Arc::new(Notify::new());
    let end = Arc::clone(&left);
    let upstream = raw(move |mut stream| {
        let left = Arc::clone(&left);
        async move {
            read_head(&mut stream).await;
            write(&mut stream, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            left.notify_one();
        }
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy.max_requests(1)).await;
    let mut client = TcpStream::connect(proxy.addr).await.unwrap();
    write(&mut client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nbegun").await;
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 401 "));
    timeout(BOUND, end.notified()).await.expect("the upstream is freed");
    let freed = async {
        while get(&format!("{proxy}/")).await.status() == 503 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(BOUND, freed).await.expect("the place is free again");
    drop(client);
}

/// The upstream closes connections that the proxy keeps: nothing of the next request was sent there, so it goes on another one.
#[tokio::test]
async fn closed_connection_costs_no_request() {
    let upstream = raw(|mut stream| async move {
        read_head(&mut stream).await;
        // No `connection: close`: the proxy keeps the connection.
        write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
    for _ in 0..50 {
        let status = get(&format!("{proxy}/")).await.status().as_u16();
        // The proxy may not know yet that the connection is closed. Then the request was sent, and is not sent again.
        assert!([200, 502].contains(&status), "{status}");
    }
}
