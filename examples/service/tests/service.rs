//! What the limits of the service admit, without a network and by a clock that the tests set.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::request::Builder;
use axum::http::{Request, Response};
use portcullis::Limiter;
use portcullis::event::{Event, EventKind};
use portcullis::testing::{self, ManualClock};
use service::limits::Limits;
use service::public;
use tower::ServiceExt as _;

struct Shop {
    clock: ManualClock,
    limiter: Limiter,
    app: Router,
}

fn shop() -> Shop {
    let clock = ManualClock::default();
    let (limiter, app) = shop_on(testing::limiter(&clock));
    Shop { clock, limiter, app }
}

fn shop_on(limiter: Limiter) -> (Limiter, Router) {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("limits.toml");
    let limits = Limits::new(limiter, &rules).unwrap();
    (limits.limiter().clone(), public::router(&limits).unwrap())
}

/// A request of this client, through nginx.
fn from(client: &str, request: Builder) -> Builder {
    let nginx = SocketAddr::from(([10, 0, 0, 9], 4711));
    request.extension(ConnectInfo(nginx)).header("x-forwarded-for", client)
}

fn get(path: &str) -> Builder {
    from("192.0.2.1", Request::get(path))
}

fn by(user: &str, request: Builder) -> Builder {
    request.header("authorization", format!("Bearer token-{user}"))
}

async fn send(app: &Router, request: Builder) -> Response<Body> {
    app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn status(app: &Router, request: Builder) -> u16 {
    send(app, request).await.status().as_u16()
}

async fn remaining(app: &Router, request: Builder) -> String {
    header(&send(app, request).await, "acme-remaining").to_owned()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1_000_000).await.unwrap().to_vec()).unwrap()
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn routes_are_limited_by_address_behind_nginx() {
    let Shop { app, clock, .. } = shop();
    for _ in 0..20 {
        assert_eq!(status(&app, get("/products")).await, 200);
    }
    assert_eq!(status(&app, get("/products")).await, 429);
    assert_eq!(status(&app, from("6.6.6.6, 192.0.2.1", Request::get("/products"))).await, 429, "forged");
    assert_eq!(status(&app, from("192.0.2.2", Request::get("/products"))).await, 200);
    assert_eq!(remaining(&app, get("/search")).await, "19");
    for _ in 0..150 {
        assert_eq!(status(&app, get("/health")).await, 200);
        assert_eq!(status(&app, from("203.0.113.7", Request::get("/products"))).await, 200, "the office");
        assert_eq!(status(&app, from("203.0.113.7", Request::get("/search"))).await, 200, "the office");
    }
    clock.advance(Duration::from_millis(100));
    assert_eq!(status(&app, get("/products")).await, 200);
}

async fn log_in(app: &Router, client: &str, email: &str, password: &str) -> Response<Body> {
    let form = "application/x-www-form-urlencoded";
    let request = from(client, Request::post("/log-in")).header("content-type", form);
    let body = Body::from(format!("email={email}&password={password}"));
    app.clone().oneshot(request.body(body).unwrap()).await.unwrap()
}

#[tokio::test]
async fn log_ins_are_limited_by_their_failures() {
    let Shop { app, clock, .. } = shop();
    for _ in 0..10 {
        assert_eq!(log_in(&app, "192.0.2.1", "ada@example.com", "correct+horse").await.status(), 200);
    }
    for _ in 0..5 {
        assert_eq!(log_in(&app, "192.0.2.1", "Ada@example.com", "guess").await.status(), 401);
    }
    let denied = log_in(&app, "192.0.2.1", "ada@example.com", "correct+horse").await;
    let owner = log_in(&app, "192.0.2.9", "ada@example.com", "correct+horse").await;
    assert_eq!(owner.status(), 200, "a stranger does not lock the owner out");
    assert_eq!((denied.status().as_u16(), header(&denied, "acme-limit")), (429, "5"));
    for guess in 0..15 {
        let email = format!("user{guess}@example.com");
        assert_eq!(log_in(&app, "192.0.2.1", &email, "guess").await.status(), 401);
    }
    let address = log_in(&app, "192.0.2.1", "grace@example.com", "correct+horse").await;
    assert_eq!((address.status().as_u16(), header(&address, "acme-limit")), (429, "20"));
    clock.advance(Duration::from_secs(30 * 60));
    assert_eq!(log_in(&app, "192.0.2.2", "ada@example.com", "correct+horse").await.status(), 200);
}

#[tokio::test]
async fn users_have_quotas_and_one_daily_budget() {
    let Shop { app, clock, .. } = shop();
    for (user, limit) in [("ada", "100"), ("pro-bob", "1000")] {
        let response = send(&app, by(user, get("/api/export"))).await;
        assert_eq!(header(&response, "acme-limit"), limit);
        assert_eq!(text(response).await, "row 1\nrow 2\nrow 3\n");
    }
    assert_eq!(remaining(&app, by("ada", get("/api/report"))).await, "199");
    for left in (9..=189).rev().step_by(10) {
        assert_eq!(remaining(&app, by("ada", get("/api/analysis"))).await, left.to_string());
    }
    assert_eq!(status(&app, by("ada", get("/api/analysis"))).await, 429);
    clock.advance(Duration::from_secs(86_400));
    assert_eq!(remaining(&app, by("ada", get("/api/analysis"))).await, "190");
    assert_eq!(status(&app, get("/api/report")).await, 401);
}

#[tokio::test]
async fn tokens_are_settled_at_what_was_used() {
    let Shop { app, .. } = shop();
    let ask = async || send(&app, by("ada", from("192.0.2.1", Request::post("/api/complete")))).await;
    let whole = ask().await;
    assert_eq!(header(&whole, "acme-remaining"), "900");
    assert_eq!(text(whole).await.len(), 250 * "token ".len());
    assert_eq!(header(&ask().await, "acme-remaining"), "650");
}

#[tokio::test(start_paused = true)]
async fn four_exports_run_at_a_time() {
    let Shop { app, limiter, .. } = shop();
    assert!(limiter.policy("exports").is_some(), "it is known before its first check");
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(send(&app, by("ada", get("/api/export"))).await);
    }
    let fifth = send(&app, by("ada", get("/api/export"))).await;
    assert_eq!(fifth.status(), 429, "after two seconds");
    assert!(text(fifth).await.contains(r#""message":"too many requests are in progress""#));
    let waiting = tokio::spawn(async move { status(&app, by("ada", get("/api/export"))).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(held);
    assert_eq!(waiting.await.expect("it ends"), 200);
}

#[tokio::test]
async fn trial_counts_a_tenth_of_the_users() {
    let would_reject = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&would_reject);
    let limiter = testing::limiter(&ManualClock::default()).observe(move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::ShadowWouldReject { .. }) {
            counter.fetch_add(1, Relaxed);
        }
    });
    let (_limiter, app) = shop_on(limiter);
    for user in 0..100 {
        for _ in 0..21 {
            let request = from(&format!("192.0.2.{user}"), Request::get("/api/report"));
            assert_eq!(status(&app, by(&format!("user{user}"), request)).await, 200);
        }
    }
    assert!((2..30).contains(&would_reject.load(Relaxed)), "a tenth of 100 users, by a request each");
}

#[tokio::test]
async fn rejections_have_the_form_of_the_company() {
    let Shop { app, .. } = shop();
    let of_page = || get("/products").header("origin", "https://shop.example.com");
    for _ in 0..20 {
        send(&app, of_page()).await;
    }
    let rejected = send(&app, of_page()).await;
    assert_eq!((rejected.status().as_u16(), header(&rejected, "retry-after")), (429, "1"));
    assert_eq!(header(&rejected, "access-control-allow-origin"), "https://shop.example.com");
    let exposed = header(&rejected, "access-control-expose-headers");
    for name in ["acme-limit", "acme-remaining", "acme-reset", "retry-after"] {
        assert!(rejected.headers().contains_key(name) && exposed.contains(name), "{name}");
    }
    let error =
        r#"{"code":"too_many_requests","message":"rate limit exceeded: retry after 1 s","retry_after":1}"#;
    assert_eq!(text(rejected).await, format!(r#"{{"error":{error}}}"#));
}

#[tokio::test]
async fn limits_can_be_switched_off() {
    let (_limiter, app) = shop_on(Limiter::off());
    for _ in 0..150 {
        assert_eq!(status(&app, Request::get("/products")).await, 200);
        assert_eq!(status(&app, by("ada", Request::get("/api/analysis"))).await, 200);
    }
}
