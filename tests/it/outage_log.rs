//! An outage of a real Redis in the log: one line for all policies of the store, those of Envoy's files among them.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::rules::envoy::Descriptors;
use portcullis::{FailureMode, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_rls::RateLimitService;
use portcullis_servers::RedisServer;
use tower::ServiceExt as _;
use tracing::Level;

use crate::rejection_log::{Log, call};

#[tokio::test]
async fn outage_of_redis_is_one_line_for_all_policies() {
    let mut redis = RedisServer::start().unwrap();
    let (log, _guard) = Log::start(Level::INFO);
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    let search =
        Policy::fixed_window("search", Quota::per_week(1_000_000)).on_store_failure(FailureMode::Open);
    let app = Router::new().route("/search", get(async || "found").layer(limiter.layer(search.by(Global))));
    let limits =
        "domain: shop\ndescriptors: [{ key: path, rate_limit: { unit: year, requests_per_unit: 1000000 } }]";
    let descriptors = Descriptors::parse(&[("shop.yaml", limits)]).unwrap();
    let service = RateLimitService::envoy(limiter.clone(), descriptors);
    service.register().unwrap();
    let ask = async || {
        let request = Request::get("/search").body(Body::empty()).unwrap();
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), 200);
        service.decide(&call()).await.unwrap();
    };
    ask().await;
    redis.kill().unwrap();
    ask().await;
    ask().await;
    redis.restart().unwrap();
    let start = Instant::now();
    let mut lines = log.take();
    while !lines.iter().any(|line| line.contains("the store of the rate limiter answers again")) {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {lines:?}");
        ask().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        lines.extend(log.take());
    }
    let of = |text: &str| lines.iter().filter(|line| line.contains(text)).cloned().collect::<Vec<_>>();
    assert_eq!(of("WARN redis cannot answer code=PC304 ").len(), 1, "{lines:?}");
    let policies = "search: open on /search; shop.path: local, whole limit";
    let (down, up) = (
        of("the store of the rate limiter cannot answer code=PC301 "),
        of("the store of the rate limiter answers again"),
    );
    assert!(down.len() == 1 && down[0].ends_with(&format!("meanwhile=\"{policies}\"")), "{lines:?}");
    assert!(up.len() == 1 && up[0].ends_with(&format!("policies=\"{policies}\"")), "{lines:?}");
}
