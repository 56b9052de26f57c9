//! Limits per calendar month: a real server and client, in memory and in Redis.

mod windows;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use portcullis::calendar::{Calendar, WindowTable};
use portcullis::key::{Global, Header};
use portcullis::{FailureMode, Limiter, Policy, PolicyExt as _, Secret, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

/// An API whose customers have three requests per calendar month.
fn api(limiter: &Limiter, months: &'static WindowTable) -> Router {
    let monthly = Policy::calendar_window("monthly", 3, months).on_store_failure(FailureMode::Closed);
    let report = get(async || "the report");
    Router::new().route("/report", report.layer(limiter.layer(monthly.by(Header::named("x-customer")))))
}

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

/// Waits for the next month if this one ends within a minute, so that none ends during a test on a real server's clock.
async fn stay_in_month(months: &WindowTable) {
    let now = Timestamp::from(SystemTime::now());
    let left = months.window(months.number_at(now)).end.saturating_since(now);
    if left < Duration::from_secs(60) {
        tokio::time::sleep(left + Duration::from_secs(1)).await;
    }
}

/// The status of a request, and its headers `x-ratelimit-remaining` and `retry-after`.
async fn report(server: SocketAddr, customer: &str) -> (StatusCode, Option<u64>, Option<u64>) {
    let request = Request::get(format!("http://{server}/report")).header("x-customer", customer);
    let response = HttpClient::http_1().send(request, "").await;
    let number = |name| response.headers().get(name).map(|value| value.to_str().unwrap().parse().unwrap());
    (response.status(), number("x-ratelimit-remaining"), number("retry-after"))
}

const OK: StatusCode = StatusCode::OK;
const LIMITED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

#[tokio::test]
async fn limit_renews_at_midnight_of_its_zone() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::new(store, Secret::published());
    let server = serve(api(&limiter, Calendar::monthly().in_zone("Europe/Berlin").unwrap())).await;

    // An hour before April in Berlin, where clocks were set forward two days ago.
    clock.set("2026-03-31T21:00:00Z".parse::<jiff::Timestamp>().map(timestamp).unwrap());
    for left in [2, 1, 0] {
        assert_eq!(report(server, "ada").await, (OK, Some(left), None));
    }
    assert_eq!(report(server, "ada").await, (LIMITED, Some(0), Some(3_600)));
    assert_eq!(report(server, "grace").await, (OK, Some(2), None));

    clock.advance(Duration::from_hours(1) - Duration::from_micros(1));
    assert_eq!(report(server, "ada").await, (LIMITED, Some(0), Some(1)));
    clock.advance(Duration::from_micros(1));
    assert_eq!(report(server, "ada").await, (OK, Some(2), None));
}

#[tokio::test]
async fn processes_on_one_redis_share_the_count_of_the_month() {
    let redis = RedisServer::start().unwrap();
    let months = Calendar::monthly().in_zone("Europe/Berlin").unwrap();
    stay_in_month(months).await;
    let limiter =
        || Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).secret("2026", b"sixteen-bytes-ok");
    let one = serve(api(&limiter().await.unwrap(), months)).await;
    let other = serve(api(&limiter().await.unwrap(), months)).await;

    assert_eq!(report(one, "ada").await, (OK, Some(2), None));
    assert_eq!(report(other, "ada").await, (OK, Some(1), None));
    assert_eq!(report(one, "ada").await, (OK, Some(0), None));

    // `Retry-After` ends with the month on the server's clock.
    let before = Timestamp::from(SystemTime::now());
    let (status, left, retry_after) = report(other, "ada").await;
    let after = Timestamp::from(SystemTime::now());
    assert_eq!((status, left), (LIMITED, Some(0)));
    let end = months.window(months.number_at(before)).end;
    let wait = |now: Timestamp| end.saturating_since(now).as_secs();
    assert!((wait(after)..=wait(before) + 1).contains(&retry_after.unwrap()), "{retry_after:?}");
}

/// Two builds with different time zone data, here with the months of another zone under one name: the numbers of the months are the
/// same, their ends are hours apart.
#[tokio::test]
async fn builds_with_other_time_zone_data_do_not_reset_counts() {
    let redis = RedisServer::start().unwrap();
    let limiter =
        || Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).secret("2026", b"sixteen-bytes-ok");
    let mut servers = Vec::new();
    let months = |zone| Calendar::monthly().in_zone(zone).unwrap();
    let (present, other) = (months("Pacific/Auckland"), months("America/Los_Angeles"));
    let former = WindowTable::new(present.name(), other.first(), other.starts()).unwrap();
    for months in [present, &*Box::leak(Box::new(former))] {
        stay_in_month(months).await;
        servers.push(serve(api(&limiter().await.unwrap(), months)).await);
    }
    let mut admitted = 0;
    for turn in 0..8 {
        admitted += u32::from(report(servers[turn % 2], "ada").await.0 == OK);
    }
    assert_eq!(admitted, 3);
}

#[tokio::test]
async fn share_of_the_month_bridges_an_outage() {
    let mut redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url())
        .deadline(Duration::from_secs(5))
        .secret("2026", b"sixteen-bytes-ok")
        .await
        .unwrap();
    let months = Calendar::monthly().in_zone("UTC").unwrap();
    stay_in_month(months).await;
    let monthly = Policy::calendar_window("monthly", 8, months).on_store_failure(FailureMode::local(4));
    let app = Router::new().route("/report", get(async || "").layer(limiter.layer(monthly.by(Global))));
    let server = serve(app).await;
    assert_eq!(report(server, "ada").await, (OK, Some(7), None));
    redis.kill().unwrap();
    assert_eq!(report(server, "ada").await.1, Some(1));
    assert_eq!(report(server, "ada").await.1, Some(0));
    assert_eq!(report(server, "ada").await.0, LIMITED);
}

fn timestamp(instant: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(u64::try_from(instant.as_microsecond()).unwrap())
}
