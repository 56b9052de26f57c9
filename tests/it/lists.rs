//! Exemptions and lists in real servers: what they name is neither limited nor charged, in memory and in Redis.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::http::Request;
use axum::{Router, routing::get};
use portcullis::key::Trust;
use portcullis::layer::{GrpcMethod, Network, RequestPath};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::listen;

/// Two requests per day and address.
fn two_per_day() -> Policy {
    Policy::gcra("address", Quota::per_day(1).burst(2))
}

async fn in_redis(redis: &RedisServer) -> Limiter {
    Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap()
}

/// The number of keys that the limiter keeps.
fn keys(redis: &RedisServer) -> usize {
    redis.cli(&["KEYS", "portcullis:*"]).unwrap().lines().filter(|key| key.contains(':')).count()
}

/// Serves the routes `/`, `/health` and `/internal/..` with the layer around them. Returns the URL.
async fn serve(layer: RateLimitLayer) -> String {
    let ok = || get(async || "");
    let app =
        Router::new().route("/", ok()).route("/health", ok()).route("/internal/{*rest}", ok()).layer(layer);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

/// A client at 127.0.0.`host`.
fn client(host: u8) -> HttpClient {
    HttpClient::from_address(IpAddr::from([127, 0, 0, host]))
}

/// The status of a response, and whether the layer has limited the request.
async fn send(client: &HttpClient, url: &str, forwarded: &str) -> (u16, bool) {
    let response = client.send(Request::get(url).header("x-forwarded-for", forwarded), ()).await;
    (response.status().as_u16(), response.headers().contains_key("x-ratelimit-limit"))
}

const EXEMPT: (u16, bool) = (200, false);
const DENIED: (u16, bool) = (403, false);
const ADMITTED: (u16, bool) = (200, true);

/// `kept_keys` is the number of keys in the store, where that can be counted.
async fn lists_decide_before_the_limit(limiter: Limiter, kept_keys: impl Fn() -> Option<usize>) {
    let clients = ClientIp::peer();
    let layer = limiter
        .layer(two_per_day().by(clients.clone()))
        .deny(Network::of(&clients, ["127.0.0.66"]))
        .deny(RequestPath::prefix("/internal"))
        .except(RequestPath::exact("/health"))
        .except(Network::of(&clients, ["127.0.0.8/30"]));
    let url = serve(layer).await;
    let of = |path: &str| format!("{url}{path}");

    let (customer, monitoring, banned) = (client(1), client(9), client(66));
    for _ in 0..3 {
        assert_eq!(send(&customer, &of("/health"), "").await, EXEMPT);
        assert_eq!(send(&monitoring, &of("/"), "").await, EXEMPT);
    }
    for path in ["/", "/health"] {
        assert_eq!(send(&banned, &of(path), "127.0.0.9").await, DENIED);
    }
    for path in ["/internal/keys", "//internal/keys", "/%69nternal/keys", "/health/../internal/keys"] {
        assert_eq!(send(&customer, &of(path), "").await, DENIED, "{path}");
        assert_eq!(send(&monitoring, &of(path), "").await, DENIED, "{path}");
    }
    // Neither exempt nor denied requests have left anything in the store.
    assert!(kept_keys().is_none_or(|kept| kept == 0));

    assert_eq!(send(&customer, &of("/"), "").await, ADMITTED);
    assert_eq!(send(&customer, &of("/"), "").await, ADMITTED);
    for path in ["/", "/health/", "//health", "/healthy", "/HEALTH", "/%68ealth", "/health;x"] {
        assert_eq!(send(&customer, &of(path), "127.0.0.9").await.0, 429, "{path}");
    }
    assert_eq!(send(&customer, &of("/health"), "").await, EXEMPT);
    assert!(kept_keys().is_none_or(|kept| kept == 1));
}

#[tokio::test]
async fn listed_requests_are_not_charged_in_memory() {
    lists_decide_before_the_limit(Limiter::memory(), || None).await;
}

#[tokio::test]
async fn listed_requests_leave_no_key_in_redis() {
    let redis = RedisServer::start().unwrap();
    lists_decide_before_the_limit(in_redis(&redis).await, || Some(keys(&redis))).await;
}

/// 127.0.0.2 is the trusted proxy. The office, 203.0.113.0/24, is exempt.
#[tokio::test]
async fn only_a_trusted_proxy_names_an_exempt_client() {
    let clients = ClientIp::behind(Trust::networks(["127.0.0.2"])).x_forwarded_for();
    let office = Network::of(&clients, ["203.0.113.0/24"]);
    let url = serve(Limiter::memory().layer(two_per_day().by(clients)).except(office)).await;
    let (proxy, forger) = (client(2), client(3));
    for forwarded in ["203.0.113.7", "6.6.6.6, 203.0.113.7", "::ffff:203.0.113.7"] {
        assert_eq!(send(&proxy, &url, forwarded).await, EXEMPT, "{forwarded}");
    }
    for expected in [ADMITTED, ADMITTED, (429, true)] {
        assert_eq!(send(&forger, &url, "203.0.113.7").await, expected);
    }
    assert_eq!(send(&proxy, &url, "203.0.113.7, 192.0.2.1").await, ADMITTED);
    assert_eq!(send(&proxy, &url, "203.0.113.7, unknown").await.0, 400);
}

async fn grpc_methods_are_listed(limiter: Limiter, kept_keys: impl Fn() -> Option<usize>) {
    let health = || GrpcMethod::service("grpc.health.v1.Health");
    let layer = || limiter.layer(two_per_day().by(ClientIp::peer()));
    let (exempt, denied) = (layer().except(health()), layer().deny(health()));
    let mut servers = Vec::new();
    for (layer, expected) in [(exempt, Ok(())), (denied, Err(Code::PermissionDenied))] {
        let (incoming, url) = listen().await;
        let (_, service) = tonic_health::server::health_reporter();
        let server = Server::builder().layer(layer).add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(url.clone()).unwrap().connect().await.unwrap();
        let mut client = HealthClient::new(channel);
        for _ in 0..4 {
            let answer = client.check(HealthCheckRequest::default()).await;
            assert_eq!(answer.map(drop).map_err(|status| status.code()), expected);
        }
        servers.push(url);
    }
    assert!(kept_keys().is_none_or(|kept| kept == 0));

    // Tonic runs a call whatever its HTTP method and content type, so what only looks like another request is limited or denied.
    let client = HttpClient::http_2();
    let call = |server: &str| Request::put(format!("{server}/grpc.health.v1.Health/Check"));
    for status in [200, 200, 429] {
        assert_eq!(client.send(call(&servers[0]), vec![0_u8; 5]).await.status(), status);
    }
    assert_eq!(client.send(call(&servers[1]), vec![0_u8; 5]).await.status(), 403);
    assert!(kept_keys().is_none_or(|kept| kept == 1));
}

#[tokio::test]
async fn listed_grpc_calls_are_not_charged_in_memory() {
    grpc_methods_are_listed(Limiter::memory(), || None).await;
}

#[tokio::test]
async fn listed_grpc_calls_leave_no_key_in_redis() {
    let redis = RedisServer::start().unwrap();
    grpc_methods_are_listed(in_redis(&redis).await, || Some(keys(&redis))).await;
}
