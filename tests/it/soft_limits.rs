//! A soft limit tells a client before it is rejected: a real server in memory and on a real Redis, with two instances on Redis.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use portcullis::event::{Event, EventKind};
use portcullis::key::Global;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::RedisServer;
use tokio::net::TcpListener;

/// Five units, which practically never come back.
fn pages() -> Policy {
    Policy::token_bucket("pages", Quota::new(1, Duration::from_secs(30 * 24 * 3_600), Some(5)).unwrap())
}

/// Starts a server that warns from the fourth of five requests on. Returns its URL, and the number of warnings that its observer
/// counts.
async fn serve(limiter: Limiter) -> (String, Arc<AtomicU64>) {
    let warned = Arc::<AtomicU64>::default();
    let counter = Arc::clone(&warned);
    let limiter = limiter.observe(move |event: &Event<'_>| {
        if let EventKind::SoftLimitReached { .. } = event.kind {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let limit = limiter.layer(pages().by(Global).warn_at(0.8));
    let app = Router::new().route("/", get(async || "hello")).layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    (url, warned)
}

/// The status and the warning of the response.
async fn ask(url: &str) -> (u16, String) {
    let response = portcullis_tests::get(url).await;
    let warning = response.headers().get("x-ratelimit-warning");
    (response.status().as_u16(), warning.map_or("", |warning| warning.to_str().unwrap()).to_owned())
}

/// Sends six requests to the servers in turn.
async fn the_fourth_and_fifth_are_warned(servers: &[(String, Arc<AtomicU64>)]) {
    let mut answers = Vec::new();
    for (url, _) in servers.iter().cycle().take(6) {
        answers.push(ask(url).await);
    }
    let expected = [(200, ""), (200, ""), (200, ""), (200, r#""pages""#), (200, r#""pages""#), (429, "")];
    assert_eq!(answers, expected.map(|(status, warning)| (status, warning.to_owned())));
    let warned: u64 = servers.iter().map(|(_, warned)| warned.load(Ordering::Relaxed)).sum();
    assert_eq!(warned, 2);
}

#[tokio::test]
async fn a_server_warns_in_memory() {
    the_fourth_and_fifth_are_warned(&[serve(Limiter::memory()).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_warn_by_one_budget_in_redis() {
    let redis = RedisServer::start().unwrap();
    let limiter = || Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).into_future();
    let servers = [serve(limiter().await.unwrap()).await, serve(limiter().await.unwrap()).await];
    the_fourth_and_fifth_are_warned(&servers).await;
}
