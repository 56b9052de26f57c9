//! Rejections of all kinds.

use portcullis_core::overrides::LockOut;
use portcullis_tower::{Header, PolicyExt as _, RateLimitLayer};
use serde_json::json;
use std::time::Duration;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{ADA, Limited};

#[tokio::test]
async fn rejected_grpc_calls_are_among_the_recent_ones() {
    let limited = Limited::new();
    for _ in 0..3 {
        limited.call(ADA).await;
    }
    assert_eq!(limited.call(ADA).await["grpc-status"], "8");
    let snapshot = limited.get("/v1/snapshot").await.json();
    let [rejection] = snapshot["recent"].as_array().unwrap().as_slice() else { panic!("{snapshot}") };
    assert_eq!((&rejection["policy"], &rejection["reason"]), (&json!("search"), &json!("limited")));
    assert_eq!(rejection["fingerprint"], snapshot["top"][0]["fingerprint"]);
}

#[tokio::test]
async fn requests_without_an_identity_are_listed_without_a_key() {
    let limited = Limited::new();
    assert_eq!(limited.request("").await, 400);
    let snapshot = limited.get("/v1/snapshot").await.json();
    let rejection = &snapshot["recent"][0];
    assert_eq!((&rejection["policy"], &rejection["fingerprint"]), (&json!("search"), &json!(null)));
    assert_eq!(rejection["reason"], "bad_identity");
    assert_eq!((&snapshot["policies"][0]["rejected"], &snapshot["top"]), (&json!(1), &json!([])));
}

#[tokio::test]
async fn a_lock_out_is_listed_until_it_is_ended() {
    let limited = Limited::new();
    let lock_out = LockOut::after(1).within(Duration::from_secs(60)).block_for(Duration::from_secs(600));
    let login = portcullis_core::Policy::fixed_window("login", portcullis_core::Quota::per_week(1));
    let layer =
        RateLimitLayer::new(limited.registry.clone(), login.by(Header::named("x-user")).lock_out(lock_out));
    let service = layer.layer(service_fn(async |_: http::Request<String>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    for status in [200, 429, 429] {
        let request = http::Request::get("/").header("x-user", ADA).body(String::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), status);
    }
    let snapshot = limited.get("/v1/snapshot").await.json();
    let locked = &snapshot["limited_now"][0];
    assert_eq!((&locked["policy"], &locked["locked_out"]), (&json!("login"), &json!(true)), "{snapshot}");
    let unblock = json!({ "policy": "login", "identity": { "fingerprint": locked["fingerprint"] } });
    assert_eq!(limited.post("/v1/unblock", &unblock).await.status, 200);
    assert_eq!(limited.get("/v1/snapshot").await.json()["limited_now"], json!([]));
}
