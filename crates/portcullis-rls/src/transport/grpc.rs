//! The gRPC service.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tower_service::Service;

use super::wire::CallCodec;
use crate::{MAX_MESSAGE_BYTES, RateLimitService};

/// The name of the gRPC service.
pub const SERVICE_NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The names under which clients ask the gRPC health service about this one: its own, and the name that Envoy's service has.
pub const HEALTH_NAMES: [&str; 2] = [SERVICE_NAME, "ratelimit"];

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
