//! The gRPC service.

use tonic::{Request, Response, Status, async_trait};

use crate::messages::rate_limit_service_server::{self, RateLimitServiceServer};
use crate::messages::{RateLimitRequest, RateLimitResponse};
use crate::{MAX_MESSAGE_BYTES, RateLimitService};

/// The name of the gRPC service.
pub const SERVICE_NAME: &str = rate_limit_service_server::SERVICE_NAME;

/// The names under which clients ask the gRPC health service about this one: its own, and the name that Envoy's service has.
pub const HEALTH_NAMES: [&str; 2] = [SERVICE_NAME, "ratelimit"];

/// The gRPC service of a [`RateLimitService`], for Tonic. A call with a value that is not UTF-8 is
/// `INVALID_ARGUMENT`.
pub type RateLimitServer = RateLimitServiceServer<RateLimitService>;

impl RateLimitService {
    /// Returns the gRPC service, with the bound on the size of calls.
    pub fn grpc(self) -> RateLimitServer {
        RateLimitServer::new(self).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }
}

#[async_trait]
impl rate_limit_service_server::RateLimitService for RateLimitService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(self.decide(request.get_ref()).await?))
    }
}
