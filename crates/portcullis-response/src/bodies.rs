//! The bodies of rejections.

mod accept;
mod grpc;
pub(crate) mod problem;

pub(crate) use grpc::response as grpc_response;
pub use grpc::{CustomGrpc, GrpcCode, GrpcRejection};
pub(crate) use problem::rendered;

/// The headers that a rejection has in most cases, with the `Content-Length` that the server adds: reserved at once, because a
/// header map that grows is allocated again.
const USUAL_HEADERS: usize = 12;
