//! Operators look up budgets, and block, grant and reset by the admin API of one instance; clients of both see it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::http::request::Parts;
use axum::routing::get;
use http_body_util::BodyExt as _;
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::redis::RedisStore;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const SEARCHES: Policy = Policy::fixed_window("searches", Quota::per_week(2)).allow_overrides();

const TOKEN: &str = "9f86d081884c7d65";

/// A service, with the API below a path of its own.
fn app(limiter: &Limiter) -> Router {
    let searches = limiter.layer(SEARCHES.by(ClientIp::peer())).route("GET /search");
    let admin = limiter.admin(|parts: &Parts| {
        if has_bearer_token(parts, TOKEN) { Ok(Actor::new("grace")) } else { Err(Refused::Unauthenticated) }
    });
    Router::new().route("/search", get(async || "found").layer(searches)).nest("/limits", admin.into_router())
}

/// A running instance.
struct Instance {
    url: String,
}

impl Instance {
    async fn start(limiter: &Limiter) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app(limiter).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url }
    }

    /// The status of a search from an address of this machine.
    async fn search(&self, from: u8) -> u16 {
        let client = HttpClient::from_address(IpAddr::from([127, 0, 0, from]));
        client.send(Request::get(format!("{}/search", self.url)), ()).await.status().as_u16()
    }

    async fn show(&self, path: &str) -> Value {
        let request = Request::get(format!("{}/limits{path}", self.url));
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let response = HttpClient::http_1().send(request, ()).await;
        assert_eq!(response.status(), 200);
        serde_json::from_slice(response.body()).unwrap()
    }

    /// Names the address of a client in a body; the layer finds its key.
    async fn operate(&self, route: &str, from: u8, more: Value) -> Value {
        let mut body = json!({
            "policy": "searches", "identity": { "request": { "peer": format!("127.0.0.{from}") } },
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request = Request::post(format!("{}/limits/v1/{route}", self.url));
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let request = request.header("content-type", "application/json");
        let response = HttpClient::http_1().send(request, body.to_string()).await;
        assert_eq!(response.status(), 200, "{route}: {:?}", response.body());
        serde_json::from_slice(response.body()).unwrap()
    }
}

/// A denial is remembered for up to a second.
async fn until_admitted(instance: &Instance, from: u8) {
    within_a_minute("a client is admitted again", async {
        while instance.search(from).await != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn operators_see_and_change_limits(limiters: [Limiter; 2], kind: &str) {
    let (one, other) = (Instance::start(&limiters[0]).await, Instance::start(&limiters[1]).await);
    let none = || json!({});

    // Two searches of a client at one instance, and a third at the other.
    assert_eq!([one.search(1).await, one.search(1).await, other.search(1).await], [200, 200, 429]);
    let budget = other.operate("budget", 1, none()).await;
    assert_eq!((&budget["limit"], &budget["remaining"]), (&json!(2), &json!(0)));
    assert_eq!(one.operate("budget", 2, none()).await["remaining"], 2);

    // Each instance shows what it has seen.
    let seen = other.show("/v1/snapshot").await;
    assert_eq!((&seen["policies"][0]["rejected"], &seen["store"]["kind"]), (&json!(1), &json!(kind)));
    assert_eq!(
        (&seen["recent"][0]["route"], &seen["store"]["healthy"]),
        (&json!("GET /search"), &json!(true))
    );
    assert_eq!(seen["limited_now"][0]["fingerprint"], budget["fingerprint"]);
    assert_eq!(one.show("/v1/snapshot").await["policies"][0]["charged_units"], 2);

    // Changes at one instance apply at the other.
    one.operate("reset", 1, none()).await;
    until_admitted(&other, 1).await;
    one.operate("grant", 2, json!({ "quota": "50/w", "duration_seconds": 3_600 })).await;
    for _ in 0..5 {
        assert_eq!(other.search(2).await, 200);
    }
    assert_eq!(other.operate("overrides", 2, none()).await["grant"]["quota"], "50/w");
    one.operate("block", 3, json!({ "duration_seconds": 3_600 })).await;
    assert_eq!([other.search(3).await, one.search(3).await], [429, 429]);
    assert_eq!(other.show("/v1/snapshot").await["recent"][0]["reason"], "blocked");
    one.operate("unblock", 3, none()).await;
    until_admitted(&other, 3).await;

    // A stream goes on for as long as its client reads it.
    let request = Request::get(format!("{}/limits/v1/stream", one.url))
        .header("authorization", format!("Bearer {TOKEN}"));
    let mut stream = HttpClient::http_1().start(request, ()).await.into_body();
    for _ in 0..2 {
        let line = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["policies"][0]["name"], "searches");
    }

    // A client without the token learns nothing.
    let request = Request::get(format!("{}/limits/v1/snapshot", one.url));
    assert_eq!(HttpClient::http_1().send(request, ()).await.status(), 401);
}

fn secret() -> Secret {
    "test:000102030405060708090a0b0c0d0e0f".parse().unwrap()
}

#[tokio::test]
async fn operators_see_and_change_limits_in_memory() {
    let store = Arc::new(MemoryStore::new());
    let limiters = [(); 2].map(|()| Limiter::new(Arc::clone(&store), secret()));
    operators_see_and_change_limits(limiters, "memory").await;
}

#[tokio::test]
async fn operators_see_and_change_limits_on_redis() {
    let redis = RedisServer::start().unwrap();
    let connect = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Limiter::new(store, secret())
    };
    operators_see_and_change_limits([connect().await, connect().await], "redis").await;
}
