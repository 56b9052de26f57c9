//! The service over gRPC, with its description, and over HTTP with JSON.

mod grpc;
mod json;
mod reflection;

pub use grpc::{HEALTH_NAMES, RateLimitServer, ReservationServer, SERVICE_NAME};
pub use reflection::{reflection, reflection_v1alpha};
