//! A real gRPC client against real Tonic servers.

use std::net::Ipv4Addr;

use axum::http::Request;
use portcullis::key::Global;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::Layer as _;

pub(crate) fn two_per_hour() -> RateLimitLayer {
    let policy = Policy::gcra("calls", "1/h burst 2".parse().unwrap());
    Limiter::memory().layer(policy.by(ClientIp::peer()))
}

pub(crate) async fn listen() -> (TcpListenerStream, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (TcpListenerStream::new(listener), url)
}

/// Starts a server with the layer around all services. Returns it with its URL.
async fn serve(layer: RateLimitLayer) -> (JoinHandle<Result<(), tonic::transport::Error>>, String) {
    let (incoming, url) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    (tokio::spawn(server.serve_with_incoming(incoming)), url)
}

pub(crate) async fn connect(url: String) -> HealthClient<Channel> {
    HealthClient::new(Endpoint::from_shared(url).unwrap().connect().await.unwrap())
}

async fn call(client: &mut HealthClient<Channel>) -> Result<(), Status> {
    client.check(HealthCheckRequest::default()).await.map(drop)
}

fn number(status: &Status, name: &str) -> u64 {
    status.metadata().get(name).unwrap().to_str().unwrap().parse().unwrap()
}

async fn the_third_call_is_exhausted(url: String) {
    let mut client = connect(url).await;
    assert!(call(&mut client).await.is_ok());
    assert!(call(&mut client).await.is_ok());
    let refused = call(&mut client).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let hour = 3_600;
    assert!((hour - 60..=hour).contains(&number(&refused, "retry-after")));
    assert!(number(&refused, "grpc-retry-pushback-ms") <= hour * 1_000);
    assert_eq!((number(&refused, "x-ratelimit-limit"), number(&refused, "x-ratelimit-remaining")), (2, 0));
}

#[tokio::test]
async fn the_layer_limits_a_whole_server() {
    let (server, url) = serve(two_per_hour()).await;
    the_third_call_is_exhausted(url).await;
    server.abort();
}

/// Tonic runs a call regardless of its HTTP method, so an uncounted preflight would bypass the limit.
#[tokio::test]
async fn a_call_that_looks_like_a_preflight_is_counted() {
    let (server, url) = serve(two_per_hour()).await;
    let client = HttpClient::http_2();
    let mut counted = Vec::new();
    for content_type in [Some("application/grpc"), None, None] {
        let mut request = Request::options(format!("{url}/grpc.health.v1.Health/Check"))
            .header("origin", "https://a.example")
            .header("access-control-request-method", "POST");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let response = client.send(request, vec![0_u8; 5]).await;
        counted.push(response.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned());
    }
    assert_eq!(counted, ["1", "0", "0"]);
    server.abort();
}

/// Nothing below the layer removes the body from a response to HEAD, and over HTTP/2 a body would break the stream.
#[tokio::test]
async fn a_rejection_of_head_is_complete() {
    let (server, url) = serve(two_per_hour()).await;
    let client = HttpClient::http_2();
    let mut last = None;
    for _ in 0..3 {
        last = Some(client.send(Request::head(&url), ()).await);
    }
    let refused = last.unwrap();
    assert_eq!(refused.status(), 429);
    assert_ne!(refused.headers()["content-length"], "0");
    assert_eq!(refused.body(), "");
    server.abort();
}

#[tokio::test]
async fn the_layer_limits_one_service() {
    let (incoming, url) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().add_service(two_per_hour().layer(health));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    the_third_call_is_exhausted(url).await;
    server.abort();
}

#[tokio::test]
async fn a_cost_that_never_fits_is_an_invalid_argument() {
    let dear = Limiter::memory().layer(Policy::gcra("dear", Quota::per_second(1)).by(Global).cost(2));
    let (server, url) = serve(dear).await;
    let refused = call(&mut connect(url).await).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.metadata().get("retry-after").is_none());
    server.abort();
}
