//! Calls of a real Tonic client to a real Tonic server that pushes back.

use portcullis::RateLimitLayer;
use tonic::Code;
use tonic::transport::{Endpoint, Server as TonicServer};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;
use crate::grpc::{listen, two_per_hour};

/// Serves health checks under a limit.
async fn start(layer: RateLimitLayer) -> String {
    let (incoming, url) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let server = TonicServer::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn pushback_closes_the_key_for_all_clients() {
    let url = start(two_per_hour()).await;
    let redis = RedisServer::start().unwrap();
    let policy = Policy::gcra("peer", Quota::per_second(1_000).burst(1_000));
    let mut clients = Vec::new();
    for limiter in two_limiters(&redis).await {
        let channel = Endpoint::from_shared(url.clone()).unwrap().connect().await.unwrap();
        let channel = limiter.outgoing(policy.clone()).layer(channel);
        // The origin is the host of the requests, which the channel adds inside of the layer only.
        clients.push(HealthClient::with_origin(channel, url.parse().unwrap()));
    }
    let mut call = async |client: usize| {
        clients[client].check(HealthCheckRequest::default()).await.map(drop).map_err(|status| {
            let was_sent = !status.message().starts_with("the request was not sent");
            (status.code(), was_sent)
        })
    };
    assert_eq!(call(0).await, Ok(()));
    assert_eq!(call(1).await, Ok(()));
    assert_eq!(call(0).await, Err((Code::ResourceExhausted, true)));
    for client in [0, 1] {
        assert_eq!(call(client).await, Err((Code::ResourceExhausted, false)));
    }
}
