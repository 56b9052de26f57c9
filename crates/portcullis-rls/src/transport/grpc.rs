//! The gRPC services.

use tonic::{Request, Response, Status, async_trait};

use crate::messages::rate_limit_service_server::{self, RateLimitServiceServer};
use crate::messages::reservation_service_server;
use crate::messages::{
    CommitRequest, CommitResponse, RateLimitRequest, RateLimitResponse, ReserveRequest, ReserveResponse,
};
use crate::{MAX_MESSAGE_BYTES, RateLimitService};

/// The name of the gRPC service.
pub const SERVICE_NAME: &str = rate_limit_service_server::SERVICE_NAME;

/// The names under which clients ask the gRPC health service about these services: their own, and the name that Envoy's service has.
pub const HEALTH_NAMES: [&str; 3] = [SERVICE_NAME, reservation_service_server::SERVICE_NAME, "ratelimit"];

/// The gRPC service of a [`RateLimitService`], for Tonic. A call with a value that is not UTF-8 is
/// `INVALID_ARGUMENT`.
pub type RateLimitServer = RateLimitServiceServer<RateLimitService>;

/// The gRPC service of [reservations](crate#reservations), for Tonic.
pub type ReservationServer = reservation_service_server::RateLimitServiceServer<RateLimitService>;

impl RateLimitService {
    /// Returns the gRPC service, with the bound on the size of calls.
    pub fn grpc(self) -> RateLimitServer {
        RateLimitServer::new(self).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Returns the gRPC service of [reservations](crate#reservations), with the bound on the size of calls.
    pub fn grpc_reservations(self) -> ReservationServer {
        ReservationServer::new(self).max_decoding_message_size(MAX_MESSAGE_BYTES)
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

#[async_trait]
impl reservation_service_server::RateLimitService for RateLimitService {
    async fn check_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(self.check(request.get_ref()).await?))
    }

    async fn report(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(self.report(request.get_ref()).await?))
    }

    async fn reserve(&self, request: Request<ReserveRequest>) -> Result<Response<ReserveResponse>, Status> {
        Ok(Response::new(self.reserve(request.get_ref()).await?))
    }

    async fn commit(&self, request: Request<CommitRequest>) -> Result<Response<CommitResponse>, Status> {
        Ok(Response::new(self.commit(request.get_ref()).await?))
    }
}
