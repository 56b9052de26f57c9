//! The body of a request that `deny` rejects where no policy matches.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use portcullis::Limiter;
use tokio::sync::mpsc::channel;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tower::ServiceExt as _;

use super::Limits;

async fn is_read(options: &str) -> bool {
    let file = Limits::new(
        "denied-bodies",
        &format!(
            "[layer]\ndeny = {{ path = \"/upload\" }}\n{options}\n\
             [policy.search]\nstrategy = \"gcra\"\nquota = \"1/d\"\nkey = \"global\"\nmatch = {{ path = \"/search\" }}\n"
        ),
    );
    let limiter = Limiter::memory().with_rules(file.rules()).unwrap();
    let app = Router::new().fallback(async || "").layer(limiter.rules().unwrap().layer());
    let (parts, body) = channel::<Bytes>(1);
    let body = Body::from_stream(ReceiverStream::new(body).map(Ok::<_, Infallible>));
    let response = app.oneshot(Request::post("/upload").body(body).unwrap()).await.unwrap();
    assert_eq!(response.status().as_u16(), 403);
    // There is room for one chunk that is not read, until the body is dropped.
    let _ = parts.send(Bytes::from_static(b"a")).await;
    parts.send(Bytes::from_static(b"b")).await.is_ok()
}

#[tokio::test]
async fn denied_bodies_are_discarded_as_files_say() {
    assert!(is_read("").await);
    assert!(!is_read("discard_bodies = 0").await);
}
