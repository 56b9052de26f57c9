//! The pages of the status, and what no web page may send.

mod metrics;
mod status;
mod web_pages;

pub(super) use metrics::Exporter;
pub use metrics::MetricsError;
pub(super) use status::router;
pub(super) use web_pages::{only_grpc, only_hosts};
