//! The gRPC health service, which reports the readiness of the server.

use std::convert::Infallible;
use std::fmt;
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};
use tower::{Layer as _, Service};

use crate::Readiness;
use crate::listener::{Client, Places};

/// Adds `grpc.health.v1.Health`, for the whole server and under the names of services.
pub(super) async fn with_health(services: Routes, names: &[String]) -> (Router, Health) {
    let (health, service) = Health::new(names).await;
    // Beside the other services, whose calls pass nothing of this.
    (services.into_axum_router().route_service(METHODS, bounded(service)), health)
}

/// Bounds the clients that watch, whose answers have no end. One address cannot take all places.
fn bounded<S>(
    service: S,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync
where
    S: Service<Request, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static,
    S::Response: IntoResponse,
{
    let watches = Places::of_requests(MAX_WATCHES);
    let bound = from_fn(move |request: Request, next: Next| {
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
    });
    bound.layer(service)
}

/// Sets what the gRPC health service answers: for the whole server, and under the names of services. Not serving at the beginning. Clones
/// set the same.
#[derive(Clone)]
pub(super) struct Health {
    reporter: HealthReporter,
    /// The first is that of the whole server.
    names: Arc<[String]>,
}

impl Health {
    /// Makes the health service and what sets its answers.
    async fn new(names: &[String]) -> (Self, HealthServer<impl HealthService>) {
        let (reporter, server) = health_reporter();
        let names = iter::once(String::new()).chain(names.iter().cloned()).collect();
        let health = Self { reporter, names };
        health.set_ready(false).await;
        (health, server.max_decoding_message_size(MAX_QUESTION_BYTES))
    }

    /// Sets whether the server is ready: `SERVING`, or `NOT_SERVING`. Watchers are notified.
    pub(super) async fn set_ready(&self, ready: bool) {
        let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in &*self.names {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Ends the answers to watchers, which have no end otherwise, and would keep a server that shuts down. Nothing is served
    /// from then on.
    pub(super) async fn end(mut self) {
        for name in &*self.names {
            self.reporter.clear_service_status(name).await;
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

/// Reports the readiness until it is dropped. Clients that watch get each change within a second.
pub(super) async fn follow(health: Health, readiness: Readiness) {
    loop {
        health.set_ready(readiness.reasons().is_empty()).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
/// The bytes of a question about health.
const MAX_QUESTION_BYTES: usize = 1 << 20;
/// The methods of the health service.
const METHODS: &str = "/grpc.health.v1.Health/{*rest}";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// As many as a server has connections by default.
const MAX_WATCHES: u32 = 1_024;

#[cfg(test)]
mod tests;
