//! A limited service, its registry and the API over it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use portcullis_admin::{Actor, Admin, Refused, has_bearer_token};
use portcullis_core::store::Store;
use portcullis_core::{Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Header, PolicyExt as _, RateLimit, RateLimitLayer, Registry};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};

pub(crate) const TOKEN: &str = "0123456789abcdef";

/// An identity that must appear nowhere.
pub(crate) const ADA: &str = "ada.lovelace@example.com";

pub(crate) fn secret() -> Secret {
    "test:000102030405060708090a0b0c0d0e0f".parse().unwrap()
}

pub(crate) fn registry(store: impl Store, secret: Secret) -> Arc<Registry> {
    Arc::new(Registry::new(Arc::new(store), secret))
}

/// Three requests per week, with grants and blocks.
pub(crate) fn search() -> Policy {
    Policy::fixed_window("search", Quota::per_week(3)).allow_overrides()
}

pub(crate) fn authorize(parts: &Parts) -> Result<Actor, Refused> {
    match () {
        () if has_bearer_token(parts, TOKEN) => Ok(Actor::new("grace")),
        () if has_bearer_token(parts, "a-guest") => Err(Refused::Forbidden),
        () => Err(Refused::Unauthenticated),
    }
}

/// A service that is limited by the header `x-user`, and the API.
#[derive(Clone)]
pub(crate) struct Limited {
    pub(crate) registry: Arc<Registry>,
    pub(crate) api: Router,
    service: RateLimit<Inner>,
}

type Inner = tower::util::BoxCloneSyncService<Request<Body>, Response<String>, Infallible>;

impl Limited {
    pub(crate) fn new() -> Self {
        Self::on(registry(MemoryStore::new(), secret()))
    }

    pub(crate) fn on(registry: Arc<Registry>) -> Self {
        let layer = RateLimitLayer::new(Arc::clone(&registry), search().by(Header::named("x-user")))
            .route("GET /search");
        let inner = Inner::new(service_fn(async |_: Request<Body>| Ok(Response::new(String::new()))));
        let api = Admin::new(Arc::clone(&registry), authorize).store_kind("memory").into_router();
        Self { service: layer.layer(inner), registry, api }
    }

    /// The status of a request of a user.
    pub(crate) async fn request(&self, user: &str) -> StatusCode {
        let request = Request::get("/search").header("x-user", user).body(Body::empty()).unwrap();
        self.service.clone().oneshot(request).await.unwrap().status()
    }

    /// A gRPC call of a user.
    pub(crate) async fn call(&self, user: &str) -> HeaderMap {
        let request = Request::post("/search.Search/Find").header("x-user", user);
        let request = request.header("content-type", "application/grpc").body(Body::empty()).unwrap();
        self.service.clone().oneshot(request).await.unwrap().headers().clone()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(get(path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(post(path, body)).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        Answer::of(self.api.clone().oneshot(request).await.unwrap()).await
    }
}

pub(crate) fn get(path: &str) -> Request<Body> {
    request("GET", path).body(Body::empty()).unwrap()
}

pub(crate) fn post(path: &str, body: &Value) -> Request<Body> {
    request("POST", path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

pub(crate) fn request(method: &str, path: &str) -> http::request::Builder {
    let authorization = format!("Bearer {TOKEN}");
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080")
        .header("authorization", authorization)
}

/// The policy and the user, as the bodies of requests name them.
pub(crate) fn of(user: &str) -> Value {
    json!({ "policy": "search", "identity": { "request": { "headers": { "x-user": user } } } })
}

/// Adds fields to a body.
pub(crate) fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Self { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the field at fault of a problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, Option<String>) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        (self.status, problem["field"].as_str().map(ToOwned::to_owned))
    }
}
