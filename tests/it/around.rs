//! Layers around a whole Axum router, served by `axum::serve`: in front of the choice of a route, and without the boxes that a router makes
//! for each of its layers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{Request as Of, Response};
use axum::routing::get;
use axum::{Router, ServiceExt as _};
use portcullis::key::Route;
use portcullis::{
    Charge, ClientIp, Decision, Limiter, OnMissing, Policy, PolicyExt as _, Quota, RateLimitLayer,
};
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tower::{Layer as _, Service, ServiceBuilder};

/// A week, so that no window ends during a test.
fn limit(limiter: &Limiter) -> RateLimitLayer {
    limiter.layer(Policy::fixed_window("all", Quota::per_week(2)).by(ClientIp::peer())).with_charge()
}

/// The state is given to the handlers here: `into_make_service` does it for a router alone.
fn router() -> Router {
    let found = async |route: MatchedPath, charge: Charge| {
        format!("{} {} {}", route.as_str(), charge.decision().policy(), charge.decision().remaining())
    };
    Router::new().route("/users/{id}", get(found)).with_state(())
}

/// Serves a service with the addresses of its clients.
async fn serve<S, F>(service: S) -> String
where
    S: Service<Request, Response = axum::response::Response, Error = std::convert::Infallible, Future = F>,
    S: Clone + Send + 'static,
    F: Future + Send,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    url
}

async fn ask(url: &str, path: &str, client: [u8; 4]) -> Response<Bytes> {
    HttpClient::from_address(IpAddr::from(client)).send(Of::get(format!("{url}{path}")), ()).await
}

async fn a_router_is_limited_as_a_whole(url: &str) {
    let (first, second) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let response = ask(url, "/users/7", first).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-ratelimit-limit"], "2");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "1");
    // What the layer leaves in the request passes the router, which adds the route.
    assert_eq!(response.body(), "/users/{id} all 1");

    // A path without a route is limited as well.
    let response = ask(url, "/nowhere", first).await;
    assert_eq!(response.status(), 404);
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");

    let response = ask(url, "/users/7", first).await;
    assert_eq!(response.status(), 429);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
    assert!(response.body().starts_with(b"rate limit exceeded"), "{:?}", response.body());

    assert_eq!(ask(url, "/users/7", second).await.status(), 200);
}

#[tokio::test]
async fn a_layer_for_axum_limits_a_whole_router() {
    a_router_is_limited_as_a_whole(&serve(limit(&Limiter::memory()).for_axum().layer(router())).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_on_redis_limits_a_whole_router() {
    let redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    a_router_is_limited_as_a_whole(&serve(limit(&limiter).for_axum().layer(router())).await).await;
}

/// `axum::serve` takes services with Axum's body only, which a layer of another body type can be given by hand.
#[tokio::test]
async fn other_layers_limit_a_whole_router_with_mapped_bodies() {
    let limit = limit(&Limiter::memory());
    let service = ServiceBuilder::new()
        .map_response(|response: Response<_>| response.map(Body::new))
        .layer(limit)
        .service(router());
    a_router_is_limited_as_a_whole(&serve(service).await).await;
}

#[tokio::test]
async fn an_outer_service_reads_the_decision() {
    let limit = limit(&Limiter::memory()).decision_in_response().for_axum();
    let shown = |mut response: axum::response::Response| {
        let decision = response.extensions().get::<Decision>().unwrap();
        let shown = format!("{} {}", decision.policy(), decision.remaining());
        response.headers_mut().insert("x-decision", shown.parse().unwrap());
        response
    };
    let service = ServiceBuilder::new().map_response(shown).layer(limit).service(router());
    let url = serve(service).await;
    for (status, decision) in [(200, "all 1"), (200, "all 0"), (429, "all 0")] {
        let response = ask(&url, "/users/7", [127, 0, 0, 1]).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["x-decision"], decision);
    }
}

/// No route has matched in front of a router: a key by route has no identity there.
#[tokio::test]
async fn a_key_by_route_is_missing_around_a_router() {
    let limit = Policy::fixed_window("all", Quota::per_week(1)).by(Route::matched_path());
    for (limit, statuses) in [(limit.clone(), [400, 400]), (limit.on_missing(OnMissing::Shared), [200, 429])]
    {
        let url = serve(Limiter::memory().layer(limit).with_charge().for_axum().layer(router())).await;
        for (status, path) in statuses.into_iter().zip(["/users/7", "/users/8"]) {
            let response = ask(&url, path, [127, 0, 0, 1]).await;
            assert_eq!(response.status(), status, "{:?}", response.body());
            if status == 400 {
                assert_eq!(response.body(), "the request has no identity\n");
            }
        }
    }
}
