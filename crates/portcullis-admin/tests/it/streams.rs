//! The stream of snapshots.

use std::time::Duration;

use axum::body::Body;
use http::Response;
use http::request::Parts;
use http_body_util::BodyExt as _;
use portcullis_admin::{Actor, Admin};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::support::{ADA, Limited, get, request};

async fn open(limited: &Limited) -> Response<Body> {
    limited.api.clone().oneshot(get("/v1/stream")).await.unwrap()
}

/// The next line.
async fn next(body: &mut Body) -> Option<Value> {
    let frame = body.frame().await?.unwrap().into_data().unwrap();
    let line = frame.strip_suffix(b"\n").unwrap();
    assert!(!line.contains(&b'\n'));
    Some(serde_json::from_slice(line).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_a_snapshot_per_line() {
    let limited = Limited::new();
    let response = open(&limited).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/x-ndjson".parse().unwrap())
    );
    let mut body = response.into_body();
    assert_eq!(next(&mut body).await.unwrap()["policies"][0]["admitted"], 0);
    limited.request(ADA).await;
    assert_eq!(next(&mut body).await.unwrap()["policies"][0]["admitted"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_ten_minutes() {
    let limited = Limited::new();
    let mut body = open(&limited).await.into_body();
    let mut lines = 0;
    while next(&mut body).await.is_some() {
        lines += 1;
    }
    assert_eq!(lines, 600);
}

#[tokio::test]
async fn streams_are_limited_in_number() {
    let limited = Limited::new();
    let mut streams = Vec::new();
    for _ in 0..16 {
        streams.push(open(&limited).await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(limited.get("/v1/stream").await.problem(), (503, None));
    assert_eq!(limited.get("/v1/snapshot").await.status, 200);
    // A client that goes makes room.
    streams.pop();
    assert_eq!(open(&limited).await.status(), 200);
}

/// Its body is not polled while nothing is read from the connection.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_loses_its_place() {
    let limited = Limited::new();
    let mut streams = Vec::new();
    for _ in 0..16 {
        streams.push(open(&limited).await);
    }
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(open(&limited).await.status(), 503);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(open(&limited).await.status(), 200);
    // Nor does it go on when it is read at last.
    assert_eq!(next(streams[0].body_mut()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_authorized_anew_after_ten_minutes() {
    let limited = Limited::new();
    let mut body = open(&limited).await.into_body();
    assert!(next(&mut body).await.is_some());
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_actor_with_all_streams_does_not_lock_others_out() {
    let by_name = |parts: &Parts| Ok(Actor::new(parts.headers["x-actor"].to_str().unwrap()));
    let api = Admin::new(Limited::new().registry, by_name).into_router();
    let open = async |actor: &str| {
        let stream = request("GET", "/v1/stream").header("x-actor", actor).body(Body::empty()).unwrap();
        api.clone().oneshot(stream).await.unwrap()
    };
    let mut of_eve = Vec::new();
    for _ in 0..16 {
        of_eve.push(open("eve").await);
    }
    let mut of_grace = open("grace").await;
    assert_eq!(of_grace.status(), 200);
    // It is the oldest one that ends, and eve does not get it back.
    assert_eq!(open("eve").await.status(), 503);
    assert_eq!(next(of_eve[0].body_mut()).await, None);
    assert!(next(of_eve[1].body_mut()).await.is_some() && next(of_grace.body_mut()).await.is_some());
}
