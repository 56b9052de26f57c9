//! Upstreams that send a body where none belongs.

use axum::http::Request;
use portcullis_tests::HttpClient;

use super::start::{raw, read_head, start, text, unlimited, write};

/// The upstream sends the body once the next request is there, so that nothing but the order could tell it from its response.
#[tokio::test(flavor = "multi_thread")]
async fn late_body_is_no_response_to_next_request() {
    for (method, head) in [
        ("HEAD", "200 OK\r\ncontent-length: 46"),
        ("HEAD", "200 OK\r\ntransfer-encoding: chunked"),
        ("HEAD", "200 OK"),
        ("HEAD", "404 Not Found\r\ncontent-length: 0"),
        ("GET", "204 No Content\r\ncontent-length: 46"),
        ("GET", "204 No Content\r\ntransfer-encoding: chunked"),
        ("GET", "304 Not Modified\r\ncontent-length: 46"),
    ] {
        let upstream = raw(move |mut stream| async move {
            let mut is_late = false;
            loop {
                match read_head(&mut stream).await {
                    head if head.is_empty() => break,
                    _ if is_late => {
                        let body = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate";
                        write(&mut stream, body).await;
                        break;
                    }
                    request if request.contains(" /bodiless ") => {
                        write(&mut stream, &format!("HTTP/1.1 {head}\r\n\r\n")).await;
                        is_late = true;
                    }
                    _ => write(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown").await,
                }
            }
        })
        .await;
        let proxy = start(unlimited(), &upstream, |proxy| proxy).await;
        for client in [HttpClient::http_1(), HttpClient::http_2()] {
            for _ in 0..3 {
                let request = Request::builder().method(method).uri(format!("{proxy}/bodiless"));
                let response = client.send(request, ()).await;
                assert!(response.status().as_str() == &head[..3] && response.body().is_empty(), "{head}");
                let response = client.send(Request::get(format!("{proxy}/next")), ()).await;
                assert_eq!(text(response.body()), "own", "{method}: {head}");
            }
        }
    }
}
