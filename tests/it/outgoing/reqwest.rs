//! Requests of a real `reqwest::Client`.

use ::reqwest::{Client, Method, Request};
use axum::http::HeaderMap;
use portcullis::key::Header;

use super::*;

/// A body, headers and a timeout arrive as they were set.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_reqwest_is_not_changed() {
    let echo =
        async |headers: HeaderMap, body: String| format!("{} {body}", headers["x-account"].to_str().unwrap());
    let url = serve(Router::new().route("/", axum::routing::post(echo))).await;
    let policy = Policy::gcra("peer", Quota::per_hour(1));
    let layer = Limiter::memory().outgoing(policy).by(Header::named("x-account"));
    let client = Client::new();
    let service = layer.layer(client.clone());
    let request = |account: &str| {
        client.post(&url).header("x-account", account).timeout(Duration::from_secs(60)).body("hello").build()
    };
    let answer = service.clone().oneshot(request("acme").unwrap()).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "acme hello");
    let answer = service.clone().oneshot(request("umbrella").unwrap()).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "umbrella hello");
    let error = service.oneshot(request("acme").unwrap()).await.unwrap_err();
    assert!(error.retry_after().is_some(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reqwest_obeys_a_refusal() {
    let server = Server::start(Policy::gcra("served", "1/4s".parse().unwrap())).await;
    let service = Limiter::memory().outgoing(too_many()).layer(Client::new());
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let request = Request::new(Method::GET, server.url.parse().unwrap());
        statuses.push(service.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200], "the third waits");
}
