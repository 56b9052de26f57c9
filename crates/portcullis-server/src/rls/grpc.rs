//! The gRPC services: limits, and health.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};
use tower::Service;

use super::wire::CallCodec;
use super::{MAX_MESSAGE_BYTES, RateLimitService};

/// The name of the gRPC service, for health checks.
pub const SERVICE_NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The path of its method.
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

impl RateLimitService {
    /// Returns the gRPC service, with the bound on the size of calls.
    pub fn grpc(self) -> RateLimitServer {
        RateLimitServer(Arc::new(self))
    }
}

/// The gRPC service of a [`RateLimitService`], for Tonic. A call with a value that is not UTF-8 is
/// `INVALID_ARGUMENT`.
#[derive(Clone, Debug)]
pub struct RateLimitServer(Arc<RateLimitService>);

impl NamedService for RateLimitServer {
    const NAME: &'static str = SERVICE_NAME;
}

impl<B> Service<http::Request<B>> for RateLimitServer
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if request.uri().path() != METHOD {
            return Box::pin(ready(Ok(Status::unimplemented("there is no such method").into_http())));
        }
        let method = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(CallCodec).apply_max_message_size_config(Some(MAX_MESSAGE_BYTES), None);
            Ok(grpc.unary(method, request).await)
        })
    }
}

impl UnaryService<RateLimitRequest> for RateLimitServer {
    type Response = RateLimitResponse;
    type Future = Answer<Result<Response<RateLimitResponse>, Status>>;

    fn call(&mut self, request: Request<RateLimitRequest>) -> Self::Future {
        let service = Arc::clone(&self.0);
        Box::pin(async move { Ok(Response::new(service.decide(request.get_ref()).await?)) })
    }
}

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sets what the gRPC health service (`grpc.health.v1`) answers: for the whole server, for [`SERVICE_NAME`] and for `ratelimit`, the name that
/// Envoy's service has. Not serving at the beginning. Clones set the same.
#[derive(Clone)]
pub struct Health(HealthReporter);

impl Health {
    /// Makes the health service and what sets its answers.
    pub async fn new() -> (Self, HealthServer<impl HealthService>) {
        let (reporter, server) = health_reporter();
        let health = Self(reporter);
        health.set_ready(false).await;
        (health, server.max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Sets whether the service is ready: `SERVING`, or `NOT_SERVING`. Those who watch it are told.
    pub async fn set_ready(&self, ready: bool) {
        let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in SERVICES {
            self.0.set_service_status(service, status).await;
        }
    }

    /// Ends the answers to those who watch, which have no end otherwise, and would keep a server that shuts down. Nothing is served
    /// from then on.
    pub(crate) async fn end(mut self) {
        for service in SERVICES {
            self.0.clear_service_status(service).await;
        }
    }
}

/// The names under which the service is asked for; the first is that of the whole server.
const SERVICES: [&str; 3] = ["", SERVICE_NAME, "ratelimit"];

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}
