use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;

#[tokio::test]
async fn health_watches_are_bounded() {
    let (router, _health) = with_health(Routes::default()).await;
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
