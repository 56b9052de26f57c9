//! A service with its limits in memory, on a real Redis, and switched off: its handlers run unchanged.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use portcullis::key::Header;
use portcullis::store::Checks;
use portcullis::{Charge, ChargeError, Limiter, Policy, PolicyExt as _, Quota, StoreError};
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

/// Three units, which practically never come back.
fn three(name: &'static str) -> Policy {
    Policy::token_bucket(name, Quota::new(1, Duration::from_secs(30 * 24 * 3_600), Some(3)).unwrap())
}

/// A handler that charges more, settles, and reads what is left.
async fn export(charge: Charge) -> Result<&'static str, ExportError> {
    if !charge.charge_more(1).await?.is_allowed() {
        return Ok("too many rows");
    }
    charge.settle(1).await?;
    assert!(charge.decision().remaining() > 0);
    Ok("exported")
}

/// A handler that asks the limiter itself.
async fn sign_in(State(limiter): State<Limiter>, account: String) -> Result<StatusCode, ExportError> {
    let key = limiter.key(|key| key.part("account", account.as_bytes())).unwrap();
    let attempt = limiter.store().check(Checks::one(three("account"), key, 1)).await?;
    for receipt in attempt.into_receipts() {
        drop(limiter.refund(receipt).await?);
    }
    limiter.reset(&three("account"), key).await?;
    assert_eq!(limiter.peek(&three("account"), key).await?.remaining(), 3);
    Ok(StatusCode::OK)
}

#[derive(Debug)]
struct ExportError;

impl From<ChargeError> for ExportError {
    fn from(_: ChargeError) -> Self {
        Self
    }
}

impl From<StoreError> for ExportError {
    fn from(_: StoreError) -> Self {
        Self
    }
}

impl axum::response::IntoResponse for ExportError {
    fn into_response(self) -> axum::response::Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

async fn serve(limiter: Limiter) -> String {
    let limit = limiter.layer(three("exports").by(Header::named("x-api-key"))).with_charge();
    let app = Router::new()
        .route("/export", get(export))
        .layer(limit)
        .route("/sign-in", post(sign_in))
        .with_state(limiter);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

/// The status, the body, and whether there are headers with figures, of exports with this API key.
async fn exports(url: &str, api_key: Option<&str>, requests: usize) -> Vec<(u16, String, bool)> {
    let client = HttpClient::http_1();
    let mut answers = Vec::new();
    for _ in 0..requests {
        let mut request = Request::get(format!("{url}/export"));
        if let Some(api_key) = api_key {
            request = request.header("x-api-key", api_key);
        }
        let answer = client.send(request, ()).await;
        let has_figures = answer.headers().keys().any(|name| name.as_str().contains("ratelimit"));
        let body = String::from_utf8(answer.body().to_vec()).unwrap();
        answers.push((answer.status().as_u16(), body, has_figures));
    }
    answers
}

fn exported(has_figures: bool) -> (u16, String, bool) {
    (200, "exported".to_owned(), has_figures)
}

async fn is_limited(limiter: Limiter) {
    let url = serve(limiter).await;
    let answers = exports(&url, Some("k-17"), 4).await;
    assert_eq!(answers[..2], [exported(true), exported(true)]);
    assert_eq!(answers[2], (200, "too many rows".to_owned(), true));
    assert_eq!((answers[3].0, answers[3].2), (429, true));
    assert_eq!(exports(&url, None, 1).await[0].0, 400, "an API key is necessary");
    let sign_in = HttpClient::http_1().send(Request::post(format!("{url}/sign-in")), "ada").await;
    assert_eq!(sign_in.status(), 200);
}

#[tokio::test]
async fn limit_in_memory_holds() {
    is_limited(Limiter::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_in_redis_holds() {
    let redis = RedisServer::start().unwrap();
    is_limited(Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap()).await;
}

#[tokio::test]
async fn without_limits_every_request_passes_through_the_same_handlers() {
    let url = serve(Limiter::off()).await;
    for api_key in [Some("k-17"), None] {
        for answer in exports(&url, api_key, 20).await {
            assert_eq!(answer, exported(false));
        }
    }
    for _ in 0..5 {
        let sign_in = HttpClient::http_1().send(Request::post(format!("{url}/sign-in")), "ada").await;
        assert_eq!(sign_in.status(), 200);
    }
}
