//! A server in production: listeners with limits and TLS, readiness, metrics, and an end that drains.
//!
//! ```
//! use axum::Router;
//! use axum::routing::get;
//! use portcullis::Limiter;
//! use portcullis_server::serve::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::memory();
//! let checks = Router::new().route("/check", get(async || "admitted"));
//! let server = Server::new(limiter).http(([127, 0, 0, 1], 0).into(), checks).bind().await?;
//! assert!(server.addresses().http.is_some());
//! let finished = server.run(async { /* until a signal arrives */ }).await;
//! assert_eq!(finished.cut_off, 0);
//! # Ok(())
//! # }
//! ```

mod addresses;
mod bodies;
mod descriptors;
mod error;
mod guards;
mod health;
mod limits;
pub(crate) mod listener;
mod metrics;
mod readiness;
mod running;
mod server;
mod status;
mod tls;
mod web_pages;

pub use addresses::{Addresses, Place};
pub use descriptors::DescriptorFiles;
pub use error::ServeError;
pub use limits::Limits;
pub use metrics::MetricsError;
pub use readiness::{NotReady, Readiness};
pub use running::{BoundServer, Finished};
pub use server::Server;
pub use tls::{Tls, TlsError};

#[cfg(test)]
mod tests;
