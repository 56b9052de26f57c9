//! The gRPC health service, which reports the readiness of the server.

use std::time::Duration;

use axum::Router;
use tonic::service::Routes;

use super::Readiness;
use crate::rls::Health;

/// Adds `grpc.health.v1.Health`, for the whole server and for Envoy's rate limit service.
pub(super) async fn with_health(services: Routes) -> (Router, Health) {
    let (health, service) = Health::new().await;
    (services.add_service(service).into_axum_router(), health)
}

/// Reports the readiness until it is dropped. Clients that watch get each change within a second.
pub(super) async fn follow(health: Health, readiness: Readiness) {
    loop {
        health.set_ready(readiness.reasons().is_empty()).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
