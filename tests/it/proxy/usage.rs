//! What models behind the proxy state that they have used.

use std::io::Write as _;

use axum::http::Request;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use portcullis::Limiter;
use portcullis_tests::HttpClient;
use tokio::io::AsyncWriteExt as _;

use super::start::{limits, raw, read_head, start, write};

/// The window ends in 2069, and so in no test.
const TOKENS: &str = r#"
[policy.tokens]
strategy = "fixed_window"
quota = "1000/18250d"
key = "client_ip"
cost = 100
reserve = "used"
usage = "openai"
"#;
const USAGE: &str = "data: {\"usage\":{\"total_tokens\":30}}\n\n";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The stream of a model, which a client can decode as it comes.
fn compressed() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for part in ["data: {\"choices\":[{}]}\n\n".repeat(50).as_str(), USAGE, "data: [DONE]\n\n"] {
        encoder.write_all(part.as_bytes()).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

/// Answers by the path of the request, and closes the connection.
async fn model() -> String {
    raw(|mut stream| async move {
        let head = read_head(&mut stream).await;
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        match head.split(' ').nth(1).unwrap() {
            "/whole" => write(&mut stream, &[CHUNKED, &chunk(USAGE), "0\r\n\r\n"].concat()).await,
            "/compressed" => {
                let body = compressed();
                let head = CHUNKED
                    .replace("transfer-encoding: chunked", "content-encoding: gzip\r\nconnection: close");
                write(&mut stream, &head).await;
                // In pieces, as they come over a network.
                for piece in body.chunks(7) {
                    stream.write_all(piece).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
            "/broken-before" => {
                write(&mut stream, &[CHUNKED, &chunk("data: {\"usage\":{\"total")].concat()).await;
            }
            "/broken-after" => write(&mut stream, &[CHUNKED, &chunk(USAGE)].concat()).await,
            "/failed" => write(&mut stream, "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n").await,
            // No response at all, which is 502.
            _ => {}
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_charges_what_models_state() {
    let upstream = model().await;
    for (path, status, charged) in [
        ("/whole", 200, 30),
        ("/compressed", 200, 30),
        ("/broken-before", 200, 100),
        ("/broken-after", 200, 30),
        ("/failed", 500, 0),
        ("/gone", 502, 0),
    ] {
        let limiter = Limiter::memory().with_rules(limits(TOKENS, None)).unwrap();
        let proxy = start(limiter, &upstream, |proxy| proxy).await;
        for client in [HttpClient::http_1(), HttpClient::http_2()] {
            let mut left = Vec::new();
            for _ in 0..2 {
                let response = client.start(Request::post(format!("{proxy}{path}")), ()).await;
                assert_eq!(response.status(), status, "{path}");
                let remaining = response.headers()["x-ratelimit-remaining"].to_str().unwrap();
                left.push(remaining.parse::<u64>().unwrap());
                let is_compressed = response.headers().contains_key("content-encoding");
                let body = response.into_body().collect().await;
                assert_eq!(body.is_err(), path.starts_with("/broken"), "{path}");
                if is_compressed {
                    assert!(
                        body.unwrap().to_bytes() == compressed(),
                        "the client gets the bytes as they are"
                    );
                }
            }
            assert_eq!(left[0] - left[1], charged, "{path}");
        }
    }
}
