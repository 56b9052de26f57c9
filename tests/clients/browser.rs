//! Tests with a page of another origin in Chromium.

use std::process::Stdio;
use std::time::Duration;

use axum::http::HeaderName;
use axum::response::Html;
use axum::{Router, routing::get};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Header;
use portcullis::testing::{self, ManualClock};
use portcullis::{Policy, PolicyExt as _, RateLimitLayer};
use tokio::process::Command;
use tower_http::cors::{Any, CorsLayer};

use crate::server::{Server, output_of};

fn limit() -> RateLimitLayer {
    let policy = Policy::gcra("all", "1/h".parse().unwrap());
    // The clock stands still, so that every wait is the whole hour.
    let limiter = testing::limiter(&ManualClock::default());
    limiter.layer(policy.by(Header::named("x-api-key"))).headers(RateLimitHeaders::IETF)
}

fn cors(limit: &RateLimitLayer) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_headers([HeaderName::from_static("x-api-key")])
        .expose_headers(limit.exposed_headers())
}

fn api() -> Router {
    Router::new().route("/", get(async || "found"))
}

/// Returns what a page on another server shows after two requests to `api`.
async fn shown(api: &Server) -> Vec<String> {
    let page = Server::start(Router::new().route("/", get(async || Html(include_str!("page.html"))))).await;
    let profile = std::env::temp_dir().join(format!("portcullis-chromium-{}", page.address.port()));
    let mut chromium = Command::new("chromium");
    chromium
        // The sandbox does not run as root, the usual user in a container; the page is trusted.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("http://{}/?api=http://{}/", page.address, api.address))
        .stdin(Stdio::null());
    let dom = tokio::time::timeout(Duration::from_secs(120), output_of(&mut chromium)).await;
    let removed = std::fs::remove_dir_all(&profile);
    let dom = dom.expect("chromium answers within two minutes");
    removed.unwrap();
    let list = dom.split_once("<ol>").unwrap().1.split_once("</ol>").unwrap().0;
    let items = list.split("<li>").skip(1);
    items.map(|item| item.trim_end_matches("</li>").replace("&quot;", "\"")).collect()
}

#[tokio::test]
async fn a_page_of_another_origin_reads_retry_after() {
    let limit = limit();
    let api = Server::start(api().layer(limit.clone()).layer(cors(&limit))).await;
    assert_eq!(shown(&api).await, [r#"200: "all";r=0;t=3600 of "all";q=1;w=3600"#, "try again in 3600 s"]);
    assert_eq!(api.answers.all(), ["200", "200", "429"], "one preflight, which is cached, and two requests");
}

/// The reverse order: preflights without a key pass the limit uncounted, but pages cannot read the limit's own responses.
#[tokio::test]
async fn a_rejection_outside_of_the_cors_layer_is_unreadable() {
    let limit = limit();
    let api = Server::start(api().layer(cors(&limit)).layer(limit)).await;
    let shown = shown(&api).await;
    assert!(shown[0].starts_with("200: "), "the preflight was not counted: {shown:?}");
    assert_eq!(shown[1], "the browser shows nothing of the answer");
}
