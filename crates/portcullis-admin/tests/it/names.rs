//! Callers by the parts of their keys, and their names in lists.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::Request;
use portcullis_admin::Admin;
use portcullis_core::{Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Extension, KeyExtractor as _, PolicyExt as _, RateLimitLayer, Registry, Route};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::privacy::Captured;
use crate::support::{ADA, Answer, Limited, authorize, get, of, post, registry, secret, with};

/// What authentication puts into requests.
#[derive(Clone)]
struct User(u64, &'static str);

/// The API of a registry with policies by user: by the name, by the number, and by the name on a route.
struct Users {
    registry: Arc<Registry>,
    api: Router,
}

impl Users {
    fn new() -> Self {
        let registry = registry(MemoryStore::new(), secret());
        let api = Admin::new(Arc::clone(&registry), authorize).into_router();
        Self { registry, api }
    }

    /// The status of a request of a user under a policy of the name, whose key is that of the name.
    async fn request(&self, policy: &'static str) -> u16 {
        let user = || Extension::<User>::with(|user, key| key.part("user", user.1.as_bytes()));
        let limit = Policy::fixed_window(policy, Quota::per_week(3)).allow_overrides();
        let limit = match policy {
            "name" => limit.by(user()),
            "number" => {
                limit.by(Extension::<User>::with(|user, key| key.part("user", &user.0.to_be_bytes())))
            }
            _ => limit.by(user().and(Route::http_method())),
        };
        let layer = RateLimitLayer::new(Arc::clone(&self.registry), limit);
        let service = layer.layer(service_fn(async |_: Request<String>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
        }));
        let request = Request::get("/").extension(User(42, "ada")).body(String::new()).unwrap();
        service.oneshot(request).await.unwrap().status().as_u16()
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        Answer::of(self.api.clone().oneshot(request).await.unwrap()).await
    }
}

#[tokio::test]
async fn parts_name_the_key_of_an_extension() {
    let users = Users::new();
    // Their layers are gone, and the policies stay.
    for policy in ["name", "number", "route"] {
        users.registry.register(&Policy::fixed_window(policy, Quota::per_week(3)).allow_overrides()).unwrap();
        assert_eq!(users.request(policy).await, 200);
    }
    let snapshot = users.send(get("/v1/snapshot")).await.json();
    for (policy, parts) in [
        ("name", r#"{ "user": "ada" }"#),
        ("name", r#"{ "user": { "hex": "616461" } }"#),
        ("number", r#"{ "user": { "u64": 42 } }"#),
        ("number", r#"{ "user": { "hex": "000000000000002A" } }"#),
        ("route", r#"{ "user": "ada", "http method": "GET" }"#),
    ] {
        let answer = users.send(budget(policy, parts)).await;
        assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(2)), "{policy} {parts}");
        let is_this =
            |row: &&Value| row["policy"] == policy && row["fingerprint"] == answer.json()["fingerprint"];
        assert_eq!(snapshot["top"].as_array().unwrap().iter().filter(is_this).count(), 1, "{policy} {parts}");
    }
    let of = json!({ "policy": "name", "identity": { "parts": { "user": "ada" } } });
    let block = with(of.clone(), &json!({ "duration_seconds": 60 }));
    assert_eq!(users.send(post("/v1/block", &block)).await.status, 200);
    assert_eq!(users.request("name").await, 429);
    assert_eq!(users.send(post("/v1/unblock", &of)).await.status, 200);
    assert_eq!(users.request("name").await, 200);
}

/// A request for the budget of the caller whose key has these parts, in this order.
fn budget(policy: &str, parts: &str) -> Request<Body> {
    let mut request = post("/v1/budget", &json!({}));
    let body = format!(r#"{{ "policy": "{policy}", "identity": {{ "parts": {parts} }} }}"#);
    *request.body_mut() = body.into();
    request
}

#[tokio::test]
async fn order_of_parts_is_that_of_the_key() {
    let limited = Limited::new();
    limited.request(ADA).await;
    let send = async |parts: &str| limited.send(budget("search", parts)).await;
    let (value, name) = (format!(r#""header": "{ADA}""#), r#""header name": "x-user""#);
    assert_eq!(send(&format!("{{ {value}, {name} }}")).await.json()["remaining"], 2);
    let reversed = send(&format!("{{ {name}, {value} }}")).await;
    assert_eq!(reversed.problem(), (422, Some("identity.parts".to_owned())));
}

#[tokio::test]
async fn invalid_parts_are_refused_and_not_repeated() {
    let limited = Limited::new();
    let captured = Captured::start();
    let long = "a".repeat(9_000);
    for parts in [
        json!({}),
        json!({ "user": [ADA] }),
        json!({ ADA: 7 }),
        json!({ "user": null }),
        json!({ "user": { "hex": ADA } }),
        json!({ "user": { "hex": "0" } }),
        json!({ "user": { "hex": "+1" } }),
        json!({ "user": { "u64": -1 } }),
        json!({ "user": { "u64": 1, "hex": "00" } }),
        json!({ "user": { ADA: 1 } }),
        json!({ "user": long }),
        json!([["user", ADA]]),
        json!(ADA),
    ] {
        let body = json!({ "policy": "search", "identity": { "parts": parts } });
        let answer = limited.post("/v1/budget", &body).await;
        assert_eq!(answer.problem(), (422, Some("identity.parts".to_owned())), "{body} {answer:?}");
        assert!(!answer.text.contains(ADA) && answer.text.len() < 400, "{answer:?}");
    }
    let two = json!({ "parts": { "user": ADA }, "fingerprint": "0".repeat(32) });
    let answer = limited.post("/v1/budget", &json!({ "policy": "search", "identity": two })).await;
    assert_eq!(answer.problem(), (422, Some("identity".to_owned())));
    assert!(!captured.text().contains(ADA));
}

#[tokio::test]
async fn lists_show_the_names_that_a_service_finds() {
    let captured = Captured::start();
    let limited = Limited::new();
    let snapshot =
        async |api: &Router| Answer::of(api.clone().oneshot(get("/v1/snapshot")).await.unwrap()).await.json();
    let named = Admin::new(Arc::clone(&limited.registry), authorize).caller_names(|_| Some(ADA.repeat(20)));
    let (named, panics) = (named.into_router(), Admin::new(Arc::clone(&limited.registry), authorize));
    let panics = panics.caller_names(|_| panic!("no names")).into_router();
    for _ in 0..4 {
        limited.request(ADA).await;
    }
    limited.post("/v1/block", &with(of(ADA), &json!({ "duration_seconds": 60 }))).await;
    let shown = snapshot(&named).await;
    for list in ["top", "recent", "limited_now"] {
        let name = shown[list][0]["name"].as_str().unwrap();
        assert!(name.starts_with(ADA) && name.chars().count() == 201, "{list} {name}");
        assert!(snapshot(&panics).await[list][0].get("name").is_none());
    }
    let unnamed = limited.get("/v1/snapshot").await;
    assert!(!unnamed.text.contains(ADA) && unnamed.json()["top"][0].get("name").is_none());
    assert!(captured.text().contains("portcullis::audit") && !captured.text().contains(ADA));
}

#[tokio::test]
async fn published_secret_is_the_reason_in_answers() {
    let limited = Limited::on(registry(MemoryStore::new(), Secret::published()));
    limited.request(ADA).await;
    let snapshot = limited.get("/v1/snapshot").await.json();
    assert!(snapshot["fingerprints_withheld"].as_str().unwrap().contains("published secret"));
    for path in ["/v1/budget", "/v1/overrides", "/v1/reset"] {
        let answer = limited.post(path, &of(ADA)).await.json();
        assert!(answer["fingerprint_withheld"].as_str().unwrap().contains("published secret"), "{path}");
    }
    let own = Limited::new().get("/v1/snapshot").await.json();
    assert!(own.get("fingerprints_withheld").is_none());
}
