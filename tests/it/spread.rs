//! Clients of a window get different values of `Retry-After`: from a real server in memory, and from two instances on a real Redis.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Request, Response};
use axum::routing::any;
use portcullis::key::Header;
use portcullis::store::MemoryStore;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Retry, Secret};
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

const SPREAD: Duration = Duration::from_secs(3_600);

/// Starts a server that admits one request of a user in ten days. A rejection in HTTP has the exact wait in microseconds as its body.
async fn serve(limiter: Limiter) -> String {
    let reports = Policy::sliding_log("reports", Quota::per(1, Duration::from_secs(10 * 24 * 3_600)));
    let limit =
        limiter.layer(reports.by(Header::named("x-user"))).spread_retries(SPREAD).reject_with(|rejection| {
            let mut response = rejection.response();
            if let Some(Retry::After(wait)) = rejection.decision().and_then(portcullis::Decision::retry) {
                *response.body_mut() = wait.as_micros().to_string().into();
            }
            response
        });
    let app = Router::new().route("/", any(async || "report")).layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

async fn ask(url: &str, user: &str) -> Response<Bytes> {
    HttpClient::http_1().send(Request::get(url).header("x-user", user), ()).await
}

fn number(text: &[u8]) -> i64 {
    str::from_utf8(text).unwrap().parse().unwrap()
}

/// What a rejection has added to the exact wait, in seconds: from this to one second more, because `Retry-After` is rounded up.
fn addition(rejected: &Response<Bytes>) -> f64 {
    assert_eq!(rejected.status(), 429);
    let (told, exact) = (number(rejected.headers()["retry-after"].as_bytes()), number(rejected.body()));
    let exact = Duration::from_micros(exact.try_into().unwrap()).as_secs_f64();
    Duration::from_secs(told.try_into().unwrap()).as_secs_f64() - 1.0 - exact
}

const USERS: [&str; 6] = ["ada", "barbara", "edsger", "grace", "leslie", "tony"];

#[tokio::test]
async fn clients_are_told_different_times_and_each_its_own_in_grpc_too() {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let url = serve(Limiter::new(store, Secret::published())).await;
    let mut told = Vec::new();
    for user in USERS {
        assert_eq!(ask(&url, user).await.status(), 200);
        let rejected = ask(&url, user).await;
        assert!((-1.0..=SPREAD.as_secs_f64()).contains(&addition(&rejected)));
        let seconds = number(rejected.headers()["retry-after"].as_bytes());
        let call = Request::post(&url).header("x-user", user).header("content-type", "application/grpc");
        let status = HttpClient::http_2().send(call, ()).await;
        let millis = number(status.headers()["grpc-retry-pushback-ms"].as_bytes());
        assert_eq!(millis.unsigned_abs().div_ceil(1_000), seconds.unsigned_abs());
        told.push(seconds);
    }
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), USERS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_on_redis_tell_a_client_the_same() {
    let redis = RedisServer::start().unwrap();
    let limiter = || Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).into_future();
    let servers = [serve(limiter().await.unwrap()).await, serve(limiter().await.unwrap()).await];
    for user in USERS {
        assert_eq!(ask(&servers[0], user).await.status(), 200);
        let [first, second] = [ask(&servers[0], user).await, ask(&servers[1], user).await];
        let difference = addition(&first) - addition(&second);
        assert!(difference.abs() <= 1.0, "{user}: {difference}");
    }
}
