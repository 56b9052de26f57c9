//! A server in production: listeners with limits and TLS, readiness, metrics, and an end that drains.
//!
//! [`Server`] serves the routers that it is given, such as those of [`CheckEndpoint`], which decides requests for proxies that ask over HTTP, and
//! of the crate `portcullis-rls`. The crate `portcullis-proxy` has a server of its own on the same [`listener`], which
//! is all that there is without the feature `server`.
//!
//! ```
//! use axum::Router;
//! use axum::routing::get;
//! use portcullis::Limiter;
//! use portcullis_server::Server;
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

#[cfg(feature = "server")]
mod check;
pub mod listener;
#[cfg(feature = "server")]
mod pages;
#[cfg(feature = "server")]
mod readiness;
#[cfg(feature = "server")]
mod server;
mod tls;

#[cfg(feature = "server")]
pub use check::{CheckEndpoint, CheckEndpointError};
#[cfg(feature = "server")]
pub use pages::MetricsError;
#[cfg(feature = "server")]
pub use readiness::{NotReady, Readiness};
#[cfg(feature = "server")]
pub use server::{Addresses, BoundServer, DescriptorFiles, Finished, Limits, Place, ServeError, Server};
pub use tls::{Tls, TlsError};
