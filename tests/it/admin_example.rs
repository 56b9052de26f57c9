//! The example with the admin API, as its documentation describes: metrics, a snapshot and the page, with traffic of its own.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use serde_json::Value;

use crate::process::{ADMIN_TOKEN, Process};

const DOCUMENT: &str = include_str!("../../docs/how-to/operate/live-page.md");

async fn snapshot(server: &Process, token: &str) -> Response<Bytes> {
    let request = Request::get(format!("{}/limits/v1/snapshot", server.url));
    HttpClient::http_1().send(request.header("authorization", format!("Bearer {token}")), ()).await
}

fn text(response: &Response<Bytes>) -> &str {
    std::str::from_utf8(response.body()).unwrap()
}

/// Waits until the traffic has met all limits: `search` and `login` have rejected requests, and `search strict` would have.
async fn operators_see_the_traffic(redis_url: Option<&str>) {
    let server = Process::admin(redis_url).await;
    let count = |policies: &Value, name: &str, figure: &str| {
        let policy = policies.as_array().unwrap().iter().find(|policy| policy["name"] == name);
        policy.unwrap_or_else(|| panic!("no {name}: {policies}"))[figure].as_u64().unwrap()
    };
    let seen = async {
        loop {
            let response = snapshot(&server, ADMIN_TOKEN).await;
            assert_eq!(response.status(), 200, "{}", text(&response));
            let snapshot: Value = serde_json::from_str(text(&response)).unwrap();
            let policies = &snapshot["policies"];
            let all = [("search", "rejected"), ("login", "rejected"), ("search strict", "would_reject")];
            if all.iter().all(|(name, figure)| count(policies, name, figure) > 0) {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let seen = within_a_minute("traffic over all limits", seen).await;
    let kind = if redis_url.is_some() { "redis" } else { "memory" };
    assert_eq!(seen["store"]["kind"], kind);
    assert!(seen["top"][0]["fingerprint"].is_string(), "{}", seen["top"][0]);
    assert_eq!(snapshot(&server, "another token").await.status(), 401);

    // The metrics are read later, so they have at least what the snapshot has. A busy machine may keep the store from answering in time.
    let metrics = server.get("/metrics").await;
    let sum = |metric: &str, outcomes: &[&str]| -> u64 {
        let series = outcomes.iter().map(|outcome| format!("{metric}outcome=\"{outcome}\"}} "));
        let value = |series: String| {
            text(&metrics).lines().find_map(|line| line.strip_prefix(&*series)?.parse::<u64>().ok())
        };
        series.filter_map(value).sum()
    };
    let denied = sum("portcullis_decisions_total{policy=\"search\",", &["denied", "fallback_denied"]);
    let unanswered = sum("portcullis_requests_total{", &["overloaded", "store_failed"]);
    let rejected = count(&seen["policies"], "search", "rejected");
    assert!(denied > 0 && denied + unanswered >= rejected, "{denied} + {unanswered} of {rejected}");

    let page = server.get("/limits").await;
    assert!(page.status() == 200 && text(&page).starts_with("<!doctype html>"), "{}", text(&page));
}

#[tokio::test]
async fn operators_see_the_traffic_of_the_example_in_memory() {
    operators_see_the_traffic(None).await;
}

#[tokio::test]
async fn operators_see_the_traffic_of_the_example_on_redis() {
    let redis = RedisServer::start().unwrap();
    operators_see_the_traffic(Some(&redis.url())).await;
}

#[tokio::test]
async fn the_example_needs_a_token() {
    for token in [None, Some("")] {
        let mut command = Process::admin_command();
        match token {
            Some(token) => command.env("PORTCULLIS_ADMIN_TOKEN", token),
            None => command.env_remove("PORTCULLIS_ADMIN_TOKEN"),
        };
        let output = within_a_minute("exit", command.output()).await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("PORTCULLIS_ADMIN_TOKEN"), "{error}");
    }
}

#[test]
fn the_guide_names_the_command_of_the_example() {
    assert!(DOCUMENT.contains("cargo run -p admin-example -- --traffic"));
}
