//! The quickstart over real sockets, run as its documentation describes.

use std::time::{Duration, Instant, SystemTime};

use axum::body::Bytes;
use axum::http::{Request, Response};
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;

use crate::process::{Process, timing_lock};

fn header(response: &Response<Bytes>, name: &str) -> Option<u64> {
    response.headers().get(name)?.to_str().ok()?.parse().ok()
}

fn is_degraded(response: &Response<Bytes>) -> bool {
    response.headers().contains_key("x-ratelimit-degraded")
}

/// A unit of the quickstart's route `/` comes back in this time.
const INTERVAL: Duration = Duration::from_secs(2);

/// Tests the quickstart's route `/`: five requests pass, the sixth gets a `Retry-After`, and that wait is enough. Returns false
/// if the machine was too busy: for the quickstart's deadline, so that the process counted a request by itself, or for six requests
/// before a unit came back.
async fn sixth_request_waits_for_retry_after(server: &Process) -> bool {
    let started = Instant::now();
    let mut responses = Vec::new();
    for _ in 0..6 {
        responses.push(server.get("/").await);
    }
    if started.elapsed() >= INTERVAL || responses.iter().any(is_degraded) {
        return false;
    }
    let refused = responses.pop().unwrap();
    for (response, left) in responses.iter().zip((0..5).rev()) {
        assert_eq!(response.status(), 200);
        assert_eq!(header(response, "x-ratelimit-limit"), Some(5));
        assert_eq!(header(response, "x-ratelimit-remaining"), Some(left));
        assert!(header(response, "x-ratelimit-reset").is_some_and(|reset| (1..=10).contains(&reset)));
    }
    assert_eq!(refused.status(), 429);
    assert_eq!(header(&refused, "x-ratelimit-remaining"), Some(0));
    let wait = header(&refused, "retry-after").unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    tokio::time::sleep(Duration::from_secs(wait)).await;
    assert_eq!(server.get("/").await.status(), 200);
    true
}

#[tokio::test]
async fn in_memory() {
    let _lock = timing_lock().await;
    for _ in 0..5 {
        if sixth_request_waits_for_retry_after(&Process::quickstart(None).await).await {
            return;
        }
    }
    panic!("never six requests before a unit comes back");
}

#[tokio::test]
async fn in_redis() {
    let _lock = timing_lock().await;
    for _ in 0..5 {
        let redis = RedisServer::start().unwrap();
        if sixth_request_waits_for_retry_after(&Process::quickstart(Some(&redis.url())).await).await {
            return;
        }
    }
    panic!("never within the deadline");
}

#[tokio::test]
async fn search_is_limited_by_api_key_or_else_by_address() {
    let _lock = timing_lock().await;
    let server = Process::quickstart(None).await;
    let client = HttpClient::http_1();
    let with_key = async |key: &str| {
        let request = Request::get(format!("{}/search", server.url)).header("x-api-key", key);
        client.send(request, ()).await
    };
    for left in (0..20).rev().take(3) {
        assert!(header(&with_key("ada").await, "x-ratelimit-remaining").unwrap() >= left);
    }
    assert_eq!(header(&with_key("grace").await, "x-ratelimit-remaining"), Some(19));
    assert_eq!(header(&server.get("/search").await, "x-ratelimit-remaining"), Some(19));
}

#[tokio::test]
async fn the_quickstart_survives_a_redis_restart() {
    let _lock = timing_lock().await;
    let mut redis = RedisServer::start().unwrap();
    let server = Process::quickstart(Some(&redis.url())).await;
    let started = now();
    let first = server.get("/").await;
    assert_eq!(first.status(), 200);
    // If Redis answers this one late, the process counts it by itself.
    let spent = u64::from(is_degraded(&first));

    redis.kill().unwrap();
    // The process limits by itself: five at once, and one more every two seconds.
    let mut passed = 0;
    for _ in 0..20 {
        let response = server.get("/").await;
        assert_eq!(response.headers()["x-ratelimit-degraded"], "true");
        assert!(header(&response, "x-ratelimit-remaining").is_some());
        match response.status().as_u16() {
            200 => {
                passed += 1;
                assert!(str::from_utf8(response.body()).unwrap().contains("degraded"));
            }
            status => assert_eq!(status, 429),
        }
    }
    assert!((5 - spent..=6 + came_back(started)).contains(&passed), "{passed}");

    redis.restart().unwrap();
    let restarted = now();
    until_redis_counts(&server).await;
    // That request was the first of five that Redis counts. A late call may have been charged nevertheless.
    let (mut counted, mut late) = (1, 0);
    loop {
        let response = server.get("/").await;
        match response.status().as_u16() {
            _ if is_degraded(&response) => late += 1,
            200 => counted += 1,
            status => break assert_eq!(status, 429),
        }
        let elapsed = restarted.0.elapsed();
        assert!(counted <= 5 + came_back(restarted), "{counted}, and {late} late ones in {elapsed:?}");
        assert!(elapsed < Duration::from_secs(60), "{counted} requests, and {late} late ones");
    }
    assert!(counted >= 5 || late > 0, "{counted}");
}

#[tokio::test]
async fn the_quickstart_starts_without_redis() {
    let _lock = timing_lock().await;
    let mut redis = RedisServer::start().unwrap();
    redis.kill().unwrap();
    let server = Process::quickstart(Some(&redis.url())).await;
    assert!(server.get("/").await.headers().contains_key("x-ratelimit-degraded"));
    redis.restart().unwrap();
    until_redis_counts(&server).await;
}

/// Sends requests until Redis counts one. The minute detects a process that does not connect again.
async fn until_redis_counts(server: &Process) {
    within_a_minute("connection", async {
        while is_degraded(&server.get("/").await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// The units that may have come back since an instant. Redis counts by the time of day, which may jump where a machine was suspended.
fn came_back((since, time_of_day): (Instant, SystemTime)) -> u64 {
    let elapsed = since.elapsed().max(time_of_day.elapsed().unwrap_or_default());
    elapsed.as_secs() / INTERVAL.as_secs()
}

fn now() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}
