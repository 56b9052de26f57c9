//! Paths and routes under nested Axum routers.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use http::Request;
use portcullis_tower::RateLimitLayer;
use portcullis_tower::matching::{RequestMatcher, RequestPath};
use tower::{Layer as _, ServiceExt as _};

use super::limit;

async fn send(app: &Router, path: &str) -> Response {
    app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
}

async fn is_limited(app: &Router, path: &str) -> bool {
    let response = send(app, path).await;
    assert_eq!(response.status(), 200, "{path}");
    response.headers().contains_key("x-ratelimit-remaining")
}

/// The routes `/health`, `/users/{id}` and `/api/..` of the same, with the layer in the inner router.
fn nested(layer: RateLimitLayer) -> Router {
    let routes = || Router::new().route("/health", get(async || "")).route("/users/{id}", get(async || ""));
    routes().nest("/api", routes().layer(layer))
}

fn except(matcher: impl RequestMatcher) -> RateLimitLayer {
    limit().except(matcher)
}

#[tokio::test]
async fn a_nested_router_compares_the_original_path() {
    assert!(!is_limited(&nested(except(RequestPath::exact("/api/health"))), "/api/health").await);
    // The path that the inner router sees is not the one that was requested.
    assert!(is_limited(&nested(except(RequestPath::exact("/health"))), "/api/health").await);
    assert!(!is_limited(&nested(except(RequestPath::prefix("/api"))), "/api/users/17").await);
}

#[tokio::test]
async fn a_nested_service_compares_the_original_path() {
    let inner = |layer: RateLimitLayer| {
        let routes = Router::new().route("/health", get(async || ""));
        Router::new().nest_service("/api", layer.layer(routes))
    };
    assert!(!is_limited(&inner(except(RequestPath::exact("/api/health"))), "/api/health").await);
    assert!(is_limited(&inner(except(RequestPath::exact("/health"))), "/api/health").await);
}

#[tokio::test]
async fn a_route_matches_however_its_path_is_written() {
    let app = |pattern: &str| nested(except(RequestPath::route(pattern)));
    for path in ["/api/users/17", "/api/users/a%20b", "/api/users/%2e%2e", "/api/users/Ada"] {
        assert!(!is_limited(&app("/api/users/{id}"), path).await, "{path}");
        assert!(is_limited(&app("/users/{id}"), path).await, "{path}");
        assert!(is_limited(&app("/api/health"), path).await, "{path}");
    }
}

#[tokio::test]
async fn requests_without_a_route_are_limited_or_denied() {
    let route = || RequestPath::route("/health");
    let app = || Router::new().route("/health", get(async || ""));
    // In the fallback of the router.
    let limited = send(&app().layer(limit().except(route())), "/other").await;
    assert!(limited.status() == 404 && limited.headers().contains_key("x-ratelimit-remaining"));
    assert_eq!(send(&app().layer(limit().deny(route())), "/other").await.status(), 403);
    assert_eq!(send(&app().layer(limit().deny(route())), "/health").await.status(), 403);
    // Around the router, where no route is known yet.
    let around = |layer: RateLimitLayer| Router::new().fallback_service(layer.layer(app()));
    assert!(is_limited(&around(limit().except(route())), "/health").await);
    assert!(is_limited(&around(limit().only(route())), "/health").await);
    assert_eq!(send(&around(limit().deny(route())), "/health").await.status(), 403);
}
