//! Clients that guess on are locked out, by two instances of a service together; operators lift blocks and grant quotas.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Header;
use portcullis::layer::LockOut;
use portcullis::redis::RedisStore;
use portcullis::store::OverridingError;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

const DAY: Duration = Duration::from_secs(86_400);

/// Guesses by address. Six rejections within a day lock an address out for a day.
const LOG_INS: Policy = Policy::fixed_window("log-ins", Quota::per_week(1));
const LOCK_OUT: LockOut = LockOut::after(6).within(DAY).block_for(DAY);

/// Reports of a customer.
const REPORTS: Policy = Policy::fixed_window("reports", Quota::per_week(1)).allow_overrides();

/// A service, with paths for its operators.
fn app(limiter: &Limiter) -> Router {
    let log_ins = limiter.layer(LOG_INS.by(ClientIp::peer()).lock_out(LOCK_OUT));
    let reports = limiter.layer(REPORTS.by(customer())).headers(RateLimitHeaders::X_RATELIMIT);
    Router::new()
        .route("/log-in", post(async || "welcome").layer(log_ins))
        .route("/report", get(async || "a report").layer(reports))
        .route("/operators/unblock/{address}", put(unblock))
        .route("/operators/block/{address}", put(block))
        .route("/operators/grant/{customer}/{limit}", put(grant))
        .layer(Extension(limiter.clone()))
}

/// The name that a gateway has verified.
fn customer() -> Header {
    Header::named("x-customer")
}

fn conflict(error: &OverridingError) -> (StatusCode, String) {
    (StatusCode::CONFLICT, error.to_string())
}

async fn unblock(
    limiter: Extension<Limiter>,
    Path(address): Path<IpAddr>,
) -> Result<(), (StatusCode, String)> {
    let request = Request::builder().extension(SocketAddr::new(address, 0)).body(()).unwrap();
    let key = limiter.key_of(&ClientIp::peer(), request).unwrap();
    limiter.unblock(&LOG_INS, key).await.map_err(|error| conflict(&error))
}

async fn block(limiter: Extension<Limiter>, Path(address): Path<IpAddr>) -> Result<(), (StatusCode, String)> {
    let key = limiter.key(|key| ClientIp::peer().prefix(address).write(key)).unwrap();
    limiter.block(&LOG_INS, key, DAY).await.map_err(|error| conflict(&error))
}

async fn grant(
    limiter: Extension<Limiter>,
    Path((name, limit)): Path<(String, u64)>,
) -> Result<(), (StatusCode, String)> {
    let request = Request::builder().header("x-customer", name).body(()).unwrap();
    let key = limiter.key_of(&customer(), request).unwrap();
    let quota = Quota::new(limit, 7 * DAY, None).unwrap();
    limiter.grant(&REPORTS, key, quota).for_duration(3 * DAY).await.map_err(|error| conflict(&error))
}

/// A running instance.
struct Instance {
    url: String,
}

/// A response: its status, `Retry-After`, and the body.
type Answer = (u16, Option<u64>, String);

impl Instance {
    async fn start(limiter: Limiter) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app(&limiter).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url }
    }

    async fn log_in(&self, from: u8) -> Answer {
        let client = HttpClient::from_address(IpAddr::from([127, 0, 0, from]));
        let request = Request::post(format!("{}/log-in", self.url)).header("accept", "application/json");
        let response = client.send(request, ()).await;
        let wait = response.headers().get("retry-after").map(|wait| wait.to_str().unwrap().parse().unwrap());
        (response.status().as_u16(), wait, String::from_utf8(response.body().to_vec()).unwrap())
    }

    async fn is_blocked(&self, from: u8) -> bool {
        let (status, wait, body) = self.log_in(from).await;
        let is_blocked = body.contains(r#""blocked":true"#);
        if is_blocked {
            assert!(status == 429 && wait.is_some_and(|wait| wait <= DAY.as_secs()), "{body}");
        }
        is_blocked
    }

    /// The status and the limit of a report.
    async fn report(&self, customer: &str) -> (u16, String) {
        let request = Request::get(format!("{}/report", self.url)).header("x-customer", customer);
        let response = HttpClient::http_1().send(request, ()).await;
        let limit = response.headers()["x-ratelimit-limit"].to_str().unwrap().to_owned();
        (response.status().as_u16(), limit)
    }

    async fn operate(&self, path: &str) -> u16 {
        let request = Request::put(format!("{}/operators/{path}", self.url));
        HttpClient::http_1().send(request, ()).await.status().as_u16()
    }
}

/// Waits until a client is blocked or not: denials are reported in the background, and remembered for a second.
async fn until_blocked(instance: &Instance, from: u8, is_blocked: bool) {
    within_a_minute("the block of a client begins or ends", async {
        while instance.is_blocked(from).await != is_blocked {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn clients_are_locked_out(limiters: [Limiter; 2]) {
    let [one, other] = limiters;
    let (one, other) = (Instance::start(one).await, Instance::start(other).await);

    // An address guesses on, at both instances in turn, and is locked out at both.
    assert_eq!(one.log_in(1).await.0, 200);
    for instance in [&one, &other, &one, &other, &one, &other] {
        assert_eq!(instance.log_in(1).await.0, 429);
    }
    until_blocked(&one, 1, true).await;
    until_blocked(&other, 1, true).await;
    assert_eq!(other.log_in(2).await.0, 200, "another address");

    // An operator lifts the block. The limit is as it was.
    assert_eq!(other.operate("unblock/127.0.0.1").await, 200);
    until_blocked(&other, 1, false).await;
    assert_eq!(other.log_in(1).await.0, 429);

    // An operator blocks an address that has done nothing yet.
    assert_eq!(one.operate("block/127.0.0.9").await, 200);
    assert!(one.is_blocked(9).await && other.is_blocked(9).await);

    // A customer gets another quota, and others keep theirs.
    assert_eq!(one.report("acme").await, (200, "1".to_owned()));
    assert_eq!(one.operate("grant/acme/3").await, 200);
    assert_eq!(other.report("acme").await, (200, "3".to_owned()));
    assert_eq!(one.report("acme").await, (200, "3".to_owned()));
    assert_eq!(other.report("acme").await, (429, "3".to_owned()));
    assert_eq!(other.report("initech").await, (200, "1".to_owned()));
}

#[tokio::test]
async fn clients_are_locked_out_in_memory() {
    let store = Arc::new(MemoryStore::new());
    clients_are_locked_out([(); 2].map(|()| Limiter::new(Arc::clone(&store), Secret::published()))).await;
}

#[tokio::test]
async fn clients_are_locked_out_on_redis() {
    let redis = RedisServer::start().unwrap();
    let connect = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Limiter::new(store, Secret::published())
    };
    clients_are_locked_out([connect().await, connect().await]).await;
}
