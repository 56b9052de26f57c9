//! The layer of the rules, around a router.

use axum::Router;
use portcullis::Limiter;

use crate::program::Service;

pub(super) fn router(limiter: &Limiter, service: &Service) -> Router {
    Service::router().layer(limiter.rules().unwrap().layer()).layer(service.extension())
}
