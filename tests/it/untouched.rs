//! The layer changes nothing but the budget: a limited server sends the same bytes as a bare one, apart from the budget headers.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{any, get, post};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Global;
use portcullis::testing::{self, ManualClock};
use portcullis::{Policy, PolicyExt as _, Quota};
use portcullis_tests::HttpClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn app() -> Router {
    Router::new()
        .route("/", any(async || ([("vary", "accept"), ("set-cookie", "a=b")], "found")))
        .route("/unmodified", get(async || (StatusCode::NOT_MODIFIED, [(header::ETAG, "\"17\"")])))
        .route("/moved", get(async || Redirect::permanent("/")))
        .route("/nothing", get(async || StatusCode::NO_CONTENT))
        .route("/hints", get(async || ([(header::LINK, "</style.css>; rel=preload")], "{}")))
        .route("/broken", get(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/echo", post(async |body: Bytes| body))
        .route("/length", get(async || ([(header::CONTENT_LENGTH, "3")], Body::from("abc"))))
        .route("/stream", get(stream))
        .route("/cut", get(cut))
        .route("/upgrade", get(upgrade))
}

/// A body of three pieces and a trailer.
async fn stream() -> Response {
    let pieces = (1..=3).map(|piece| Frame::data(Bytes::from(format!("piece {piece}"))));
    let trailers = HeaderMap::from_iter([(header::ETAG, "\"18\"".parse().unwrap())]);
    let frames = pieces.chain([Frame::trailers(trailers)]).map(Ok::<_, Infallible>);
    let body = Body::new(StreamBody::new(tokio_stream::iter(frames)));
    ([(header::TRAILER, "etag")], body).into_response()
}

/// A body that fails while it is sent.
async fn cut() -> Body {
    let frames = [Ok(Bytes::from_static(b"half of")), Err(std::io::Error::other("cut"))];
    Body::from_stream(tokio_stream::iter(frames))
}

/// Another protocol, which echoes everything twice.
async fn upgrade(request: Request) -> Response {
    tokio::spawn(async move {
        let mut stream = hyper_util::rt::TokioIo::new(hyper::upgrade::on(request).await.unwrap());
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&[bytes, bytes].concat()).await.unwrap();
    });
    (StatusCode::SWITCHING_PROTOCOLS, [(header::CONNECTION, "upgrade"), (header::UPGRADE, "twice")])
        .into_response()
}

fn limited(burst: u64) -> Router {
    let policy = Policy::gcra("all", Quota::per_hour(1).burst(burst));
    let every = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF | RateLimitHeaders::IETF_DRAFT_6;
    // The clock stands still, so that every wait is the whole hour.
    let limiter = testing::limiter(&ManualClock::default());
    app().layer(limiter.layer(policy.by(Global)).headers(every))
}

async fn serve(app: Router) -> std::net::SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

/// Sends a request and returns everything that the server sends until it closes the connection.
async fn exchange(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

/// Removes the date and the budget's headers. Returns the rest and the number of the budget's headers.
fn without_budget(answer: &str) -> (String, usize) {
    let is_budget = |line: &&str| line.starts_with("x-ratelimit-") || line.starts_with("ratelimit");
    let kept: Vec<_> =
        answer.split("\r\n").filter(|line| !is_budget(line) && !line.starts_with("date: ")).collect();
    (kept.join("\n"), answer.split("\r\n").filter(is_budget).count())
}

const REQUESTS: [&str; 16] = [
    "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "OPTIONS / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "DELETE / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /unmodified HTTP/1.1\r\nhost: a\r\nif-none-match: \"17\"\r\nconnection: close\r\n\r\n",
    "GET /moved HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /hints HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /broken HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /absent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /length HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "POST /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET /stream HTTP/1.1\r\nhost: a\r\nconnection: close\r\nte: trailers\r\n\r\n",
    "GET /cut HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: twice\r\n\r\nhello",
];

#[tokio::test]
async fn responses_are_unchanged_except_for_the_budget() {
    let (bare, limited) = (serve(app()).await, serve(limited(100)).await);
    let mut seen = String::new();
    for request in REQUESTS {
        let (expected, none) = without_budget(&exchange(bare, request).await);
        let (answer, budget) = without_budget(&exchange(limited, request).await);
        // If the body fails before the head was written, neither is sent.
        let all = if answer.is_empty() { 0 } else { 8 };
        assert_eq!((&answer, budget, none), (&expected, all, 0), "{request}");
        seen += &answer;
    }
    // The responses cover the features under test.
    for sign in [" 304 ", " 308 ", " 101 ", "hellohello", "etag: \"18\"", "content-length: 3\n", "piece 3"] {
        assert!(seen.contains(sign), "{sign} is not in {seen}");
    }
}

#[tokio::test]
async fn every_rejection_is_complete() {
    let limited = serve(limited(1)).await;
    exchange(limited, REQUESTS[0]).await;
    for request in REQUESTS {
        let request = request.replace("connection: upgrade", "connection: close, upgrade");
        let answer = exchange(limited, &request).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(" 429 Too Many Requests\r\n") && head.contains("\r\nretry-after: 3600"),
            "{head}"
        );
        let text = "rate limit exceeded: retry after 3600 s\n";
        assert!(head.contains(&format!("\r\ncontent-length: {}", text.len())), "{head}");
        assert_eq!(body, if request.starts_with("HEAD") { "" } else { text }, "{request}");
    }
}

#[tokio::test]
async fn responses_are_unchanged_over_http_2() {
    let (bare, limited) = (serve(app()).await, serve(limited(5)).await);
    let client = HttpClient::http_2();
    let send = async |address, method: &str, path: &str| {
        let request = axum::http::Request::builder().method(method).uri(format!("http://{address}{path}"));
        let answer = client.start(request, ()).await;
        assert_eq!(answer.version(), Version::HTTP_2);
        let (status, mut headers) = (answer.status().as_u16(), answer.headers().clone());
        headers.remove("date");
        let names: Vec<_> =
            headers.keys().filter(|name| name.as_str().contains("ratelimit")).cloned().collect();
        for name in &names {
            headers.remove(name);
        }
        let answer = answer.into_body().collect().await.unwrap();
        let trailers = answer.trailers().cloned();
        let body = String::from_utf8(answer.to_bytes().to_vec()).unwrap();
        (status, headers, names.len(), body, trailers)
    };
    for (method, path) in
        [("GET", "/"), ("HEAD", "/"), ("GET", "/moved"), ("GET", "/stream"), ("GET", "/unmodified")]
    {
        let (expected, answer) = (send(bare, method, path).await, send(limited, method, path).await);
        assert_eq!(
            (answer.0, &answer.1, &answer.3, &answer.4),
            (expected.0, &expected.1, &expected.3, &expected.4),
            "{method} {path}"
        );
        assert_eq!((answer.2, expected.2), (8, 0));
        assert_eq!(answer.4.is_some(), path == "/stream", "trailers of {path}");
    }
    for (method, text) in [("GET", "rate limit exceeded: retry after 3600 s\n"), ("HEAD", "")] {
        let (status, headers, _, body, _) = send(limited, method, "/").await;
        assert_eq!((status, body.as_str()), (429, text), "{method}");
        assert_eq!(headers["retry-after"], "3600");
    }
}
