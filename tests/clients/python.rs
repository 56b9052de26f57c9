//! Tests with Python's urllib3 and grpcio.

use std::net::Ipv4Addr;
use std::path::Path;

use axum::{Router, routing::get};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, RateLimitLayer};
use portcullis_servers::within_a_minute;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tower::util::MapResponseLayer;

use crate::server::{Answers, Server, output_of};

fn limit(quota: &str) -> RateLimitLayer {
    let policy = Policy::gcra("all", quota.parse().unwrap());
    Limiter::memory().layer(policy.by(ClientIp::peer()))
}

pub(crate) async fn python(script: &str, arguments: &[&str]) -> String {
    let python = std::env::var_os("PORTCULLIS_PYTHON")
        .expect("PORTCULLIS_PYTHON names a Python with tests/clients/requirements.txt: `cargo xtask test clients` sets it");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/scripts").join(script);
    within_a_minute("output of the script", output_of(Command::new(python).arg(script).args(arguments))).await
}

#[tokio::test]
async fn urllib3_waits_for_retry_after() {
    let server = Server::start(Router::new().route("/", get(async || "found")).layer(limit("1/2s"))).await;
    let printed = python("urllib3_waits.py", &[&format!("http://{}/", server.address)]).await;
    assert_eq!(printed, "200 []\n200 [429]\n");
    assert_eq!(server.answers.all(), ["200", "429", "200"]);
}

/// Starts a gRPC server. Returns its address and the record of its responses.
async fn grpc_server(limit: RateLimitLayer) -> (String, Answers, JoinHandle<()>) {
    let answers = Answers::default();
    let recorder = answers.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (_, health) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder()
        .layer(MapResponseLayer::new(move |answer| recorder.record(answer)))
        .layer(limit)
        .add_service(health)
        .serve_with_incoming(TcpListenerStream::new(listener));
    let task = tokio::spawn(async move { server.await.unwrap() });
    (address, answers, task)
}

/// Without the pushback grpcio would try three times within milliseconds, and be rejected each time.
#[tokio::test]
async fn grpcio_obeys_the_pushback() {
    let (address, answers, server) = grpc_server(limit("1/2s")).await;
    assert_eq!(python("grpcio_waits.py", &[&address]).await, "OK\nOK\n");
    assert_eq!(answers.all(), ["200", "grpc 8", "200"]);
    server.abort();
}

#[tokio::test]
async fn grpcio_does_not_retry_without_pushback_and_reads_details() {
    // The wait in milliseconds exceeds the 32 bits of the pushback.
    let (address, answers, server) = grpc_server(limit("1/30d")).await;
    let printed = python("grpcio_waits.py", &[&address]).await;
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 4, "{printed}");
    assert_eq!(lines[0], "OK");
    // The second call may be some seconds after the first.
    let limited = "RESOURCE_EXHAUSTED rate limit exceeded: retry after ";
    let wait = lines[1].strip_prefix(limited).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| (2_591_900..=2_592_000).contains(&wait)), "{printed}");
    assert!(
        lines[2].starts_with("retry_delay { seconds: 25919") && lines[2].contains(" nanos: "),
        "{printed}"
    );
    assert_eq!(lines[3], r#"violations { subject: "all" description: "0 of 1 units remain" }"#);
    assert_eq!(answers.all(), ["200", "grpc 8"], "one attempt");
    server.abort();
}
