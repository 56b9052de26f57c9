use axum::Extension;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;

#[tokio::test]
async fn health_follows_readiness() {
    use tonic_health::pb::health_check_response::ServingStatus;

    let (health, server) = Health::new(&["a.B".to_owned(), "b".to_owned()]).await;
    let mut client = HealthClient::new(server);
    for (ready, expected) in [
        (false, ServingStatus::NotServing),
        (true, ServingStatus::Serving),
        (false, ServingStatus::NotServing),
    ] {
        health.set_ready(ready).await;
        for name in ["", "a.B", "b"] {
            let request = HealthCheckRequest { service: name.to_owned() };
            assert_eq!(client.check(request).await.unwrap().into_inner().status(), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn health_watches_are_bounded() {
    let (router, _health) = with_health(Routes::default(), &[]).await;
    let mut client = HealthClient::new(router.into_service::<tonic::body::Body>());
    let mut watches = Vec::new();
    for _ in 0..MAX_WATCHES {
        watches.push(client.watch(HealthCheckRequest::default()).await.unwrap());
    }
    let refused = client.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(client.check(HealthCheckRequest::default()).await.is_ok());
    watches.pop();
    assert!(client.watch(HealthCheckRequest::default()).await.is_ok(), "the place is free again");
}

#[tokio::test]
async fn watches_of_one_address_leave_room() {
    let (router, _health) = with_health(Routes::default(), &[]).await;
    let client = |host: u8| {
        let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, host], 41_000)));
        HealthClient::new(router.clone().layer(Extension(peer)).into_service::<tonic::body::Body>())
    };
    let (mut first, mut watches) = (client(1), Vec::new());
    while let Ok(watch) = first.watch(HealthCheckRequest::default()).await {
        watches.push(watch);
    }
    assert_eq!(watches.len(), 768);
    assert!(client(2).watch(HealthCheckRequest::default()).await.is_ok());
}
