//! Settlements that charge more than fits: a real server in memory and on a real Redis, with two instances on Redis.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Path;
use axum::routing::get;
use axum::{Router, http::StatusCode};
use portcullis::event::{Event, EventKind};
use portcullis::key::Global;
use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::RedisServer;
use tokio::net::TcpListener;

/// A thousand tokens, one per hour. An answer may use up to 50 000 beyond them.
const TOKENS: Policy = Policy::token_bucket("tokens", per_hour()).allow_debt(50_000);
/// At most a thousand tokens beyond the thousand. A window, of which nothing is replenished while the answer is made.
const BY_DEFAULT: Policy = Policy::fixed_window("tokens by default", Quota::per_week(1_000));

const fn per_hour() -> Quota {
    match Quota::new(1, Duration::from_secs(3_600), None) {
        Ok(quota) => quota.burst(1_000),
        Err(_) => panic!("the period is in bounds"),
    }
}

struct Server {
    url: String,
    uncharged: Arc<Mutex<Vec<u64>>>,
}

/// Starts a server whose answers use the tokens that the path states.
async fn serve(limiter: Limiter) -> Server {
    let uncharged = Arc::<Mutex<Vec<u64>>>::default();
    let seen = Arc::clone(&uncharged);
    let limiter = limiter.observe(move |event: &Event<'_>| {
        if let EventKind::DebtExceeded { uncharged, .. } = event.kind {
            seen.lock().unwrap().push(uncharged);
        }
    });
    let layer = |policy: Policy| limiter.layer(policy.by(Global)).with_charge();
    let app = Router::new()
        .route("/tokens/{used}", get(answer).layer(layer(TOKENS)))
        .route("/default/{used}", get(answer).layer(layer(BY_DEFAULT)));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    Server { url, uncharged }
}

async fn answer(charge: Charge, Path(used): Path<u64>) -> Result<(), StatusCode> {
    charge.settle(used).await.map(drop).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

impl Server {
    /// The status, and the hours to wait, rounded to whole ones.
    async fn get(&self, path: &str) -> (u16, Option<u64>) {
        let response = portcullis_tests::get(&format!("{}{path}", self.url)).await;
        let wait =
            response.headers().get("retry-after").map(|wait| wait.to_str().unwrap().parse::<u64>().unwrap());
        (response.status().as_u16(), wait.map(|seconds| seconds.div_ceil(3_600)))
    }
}

/// The second server rejects what the first one has charged.
async fn a_debt_is_charged_up_to_its_bound([first, second]: [&Server; 2]) {
    assert_eq!(first.get("/tokens/40000").await, (200, None));
    assert_eq!(second.get("/tokens/1").await, (429, Some(39_001)));
    assert_eq!(first.uncharged.lock().unwrap().as_slice(), [] as [u64; 0]);

    assert_eq!(first.get("/default/40000").await, (200, None));
    assert_eq!(second.get("/default/1").await.0, 429);
    assert_eq!(first.uncharged.lock().unwrap().as_slice(), [38_000]);
}

#[tokio::test]
async fn a_server_in_memory_charges_a_debt() {
    let server = serve(Limiter::memory()).await;
    a_debt_is_charged_up_to_its_bound([&server, &server]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_charge_a_debt_in_redis() {
    let redis = RedisServer::start().unwrap();
    let limiter = || Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).into_future();
    let (first, second) = (serve(limiter().await.unwrap()).await, serve(limiter().await.unwrap()).await);
    a_debt_is_charged_up_to_its_bound([&first, &second]).await;
}
