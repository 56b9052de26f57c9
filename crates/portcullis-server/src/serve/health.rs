//! The gRPC health service, which reports the readiness of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use http_body_util::BodyExt as _;
use tonic::Status;
use tonic::service::Routes;

use super::Readiness;
use crate::places::{Client, Places};
use crate::rls::Health;

/// Adds `grpc.health.v1.Health`, for the whole server and for Envoy's rate limit service.
pub(super) async fn with_health(services: Routes) -> (Router, Health) {
    let (health, service) = Health::new().await;
    (bounded(services.add_service(service).into_axum_router()), health)
}

/// Bounds the clients that watch, whose answers have no end. One address cannot take all places.
fn bounded(router: Router) -> Router {
    let watches = Places::of_requests(MAX_WATCHES);
    router.layer(from_fn(move |request: Request, next: Next| {
        let watches = Arc::clone(&watches);
        async move {
            if request.uri().path() != WATCH {
                return next.run(request).await;
            }
            let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let Ok(place) = watches.take(peer.map(|ConnectInfo(peer)| Client::at(peer.ip()))) else {
                let message = "too many clients watch the health of this server, or too many at this address: ask by Check";
                return Status::resource_exhausted(message).into_http();
            };
            let held = move |frame| {
                let _ = &place;
                frame
            };
            next.run(request).await.map(|body| Body::new(body.map_frame(held)))
        }
    }))
}

/// Reports the readiness until it is dropped. Clients that watch get each change within a second.
pub(super) async fn follow(health: Health, readiness: Readiness) {
    loop {
        health.set_ready(readiness.reasons().is_empty()).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// As many as a server has connections by default.
const MAX_WATCHES: u32 = 1_024;

#[cfg(test)]
mod tests;
