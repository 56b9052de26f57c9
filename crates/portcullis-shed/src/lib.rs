//! Load shedding: a layer that rejects requests because the service is overloaded, not because a client is over its quota.
//!
//! ```
//! use std::sync::Arc;
//!
//! use http::{Request, Response};
//! use portcullis_core::Secret;
//! use portcullis_memory::MemoryStore;
//! use portcullis_shed::{Class, ShedLayer};
//! use portcullis_tower::Registry;
//! use portcullis_tower::matching::RequestPath;
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
//! let layer = ShedLayer::new(&registry, 2..=500).class(Class::Critical, RequestPath::prefix("/pay"));
//! let service = layer.layer(service_fn(async |_: Request<String>| {
//!     Ok::<_, std::convert::Infallible>(Response::new(String::from("done")))
//! }));
//! let response = service.oneshot(Request::get("/search").body(String::new())?).await?;
//! assert_eq!(layer.in_flight(), 1);
//! drop(response); // or its body has ended
//! assert_eq!(layer.in_flight(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! # The limit
//!
//! A request is in flight from its call until the body of its response has ended or is dropped, its client has left, or the inner
//! service has failed or panicked. A layer allows a number of requests in flight that follows the service: after each window of at least 100
//! ms and 100 requests it compares the mean time to the response head with that without load, which it has learned while few requests were in
//! flight. It allows more while nearly nothing waits inside of the service, and fewer once the time exceeds
//! [what is tolerated](ShedLayer::tolerate_latency). It changes by one step per window, and only requests that began after a change are
//! measured for the next one, as in congestion control of TCP; so it does not swing. A limit that is used by less than half does not change.
//!
//! - **What is measured** ends with the response head, so that long bodies do not count as slow, and neither do requests that take
//!   longer than a window beside faster ones. Errors, status 400 and above or a gRPC status in the head, and clients that leave count only
//!   if they took longer than tolerated: a fast error is no sign of health, and a timeout is one of overload.
//! - **A service that becomes slower for another reason** looks overloaded. The limit falls to its floor, where the new latency is learned,
//!   and grows again.
//! - **A stall.** If requests are rejected and no response head has come for a second, or five times the latency without load, the limit grows by
//!   a step.
//! - **No deadlock.** A request is always admitted if no other one waits for its response head, whatever is in flight and whatever its class.
//! - **No queue.** What exceeds the limit is rejected at once. The requests that wait for an inner service that is not ready are in flight.
//! - **Upgrades.** A connection that outlives its response, as of a WebSocket, is not in flight after the head, as no layer sees its end, unless
//!   the handler keeps [the permit](ShedLayer::leave_permit).
//!
//! Nothing runs while there are no requests: no task and no timer.
//!
//! # Single clients
//!
//! A request body that arrives [too slowly](ShedLayer::body_rate) ends, and gives its place back. With
//! [`share_per`](ShedLayer::share_per) each caller has a share of the places.
//!
//! # Rejections
//!
//! 503 with `Retry-After`, in gRPC `UNAVAILABLE` with `grpc-retry-pushback-ms`, made as those of a
//! [`RateLimitLayer`](portcullis_tower::RateLimitLayer), with [`Reason::Shed`](portcullis_tower::Reason::Shed). Waits are
//! [spread](ShedLayer::retry_after). Admitted requests get no header. Each is an [`EventKind::Shed`](portcullis_tower::EventKind::Shed), and an
//! [`EventKind::Rejected`](portcullis_tower::EventKind::Rejected). [`Registry::figures`](portcullis_tower::Registry::figures) has the limit.
//!
//! # Position in the stack
//!
//! Outside of layers that limit rates, so that a request that is shed is not charged; a request that these reject has been in flight for a moment.
//! Inside of tracing, CORS and compression. Around all routes of a service, since they share its capacity. Outside of a timeout, so that requests that
//! time out are seen. A layer of a limiter that is [off](portcullis_tower::Registry::off) admits everything.
//!
//! # Features
//!
//! `axum` and `tonic` apply [`body_rate`](ShedLayer::body_rate) to their bodies. `tonic` lets a layer wrap a single Tonic service.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod config;
mod error;
mod future;
mod layer;
mod limit;
mod service;
mod shared;

pub use body::ShedBody;
pub use config::ShedPermit;
pub use error::ShedError;
pub use future::ShedFuture;
pub use layer::{ShedLayer, ShedSettings};
pub use portcullis_engine::Class;
pub use service::Shed;

/// The largest limit on requests in flight.
const MAX_LIMIT: usize = 1_000_000;
