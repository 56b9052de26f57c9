//! Limits on outgoing requests: a layer around an HTTP client that keeps to what a server allows.
//!
//! [`OutgoingLayer`] paces requests by a policy, which all clones, tasks and processes with the same store share. A request waits for
//! its slot or window as the policy [allows](portcullis_core::Policy::wait_at_most), or fails with [`OutgoingError::Limited`] and is not
//! sent. What the server answers is obeyed: a refusal closes the key until the time that it states, for all processes, by a
//! [block](portcullis_tower::Registry::block) in the store.
//!
//! | answer | the key is closed for |
//! |---|---|
//! | 429 | the longest time in `Retry-After` or `Retry-After-Ms`; else that of a policy in `RateLimit` without remaining units, or in the [headers](OutgoingLayer::remaining_headers) that are set; else [a second](OutgoingLayer::closed_without_hint) |
//! | gRPC `RESOURCE_EXHAUSTED` in the headers | the same, with `grpc-retry-pushback-ms` and, by the feature `tonic`, `RetryInfo` in the details |
//! | 403, 503 or gRPC `UNAVAILABLE`, with a time | this time, unless it is that of a budget with remaining units |
//! | any other status from 400 on, with `Retry-After` or `Retry-After-Ms` | this time |
//! | any other in which nothing remains | its reset, [if that is set](OutgoingLayer::close_at_zero) |
//!
//! A time is never longer than [a minute](OutgoingLayer::closed_at_most). Dates are compared with the `Date` of the same answer. A value
//! that is invalid is ignored, with [an event](portcullis_tower::EventKind::OutgoingHintIgnored). A gRPC status in trailers, after messages, is
//! not read.
//!
//! The layer never repeats a request, never reads or copies a body, and needs no clone of a request.
//!
//! ```
//! use std::time::Duration;
//!
//! use http::{Request, Response};
//! use portcullis::outgoing::OutgoingError;
//! use portcullis::{Limiter, Policy, Quota};
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Ten calls per second to each host; a call too many waits for up to two seconds.
//! let policy = Policy::gcra("partners", Quota::per_second(10)).wait_at_most(Duration::from_secs(2));
//! let client = Limiter::memory().outgoing(policy).layer(service_fn(async |_: Request<String>| {
//!     // An HTTP client. This server refuses everything.
//!     Response::builder().status(429).header("retry-after", "30").body(())
//! }));
//! let request = || Request::get("https://api.example.com/v1").body(String::new());
//! assert_eq!(client.clone().oneshot(request()?).await?.status(), 429);
//!
//! let Err(OutgoingError::Limited(paced)) = client.oneshot(request()?).await else { unreachable!() };
//! assert!(paced.is_closed() && paced.retry_after() > Some(Duration::from_secs(20)));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `tonic` reads `RetryInfo` in the details of a status, and makes a `tonic::Status` the source of [`OutgoingError::Limited`]. `reqwest` lets
//! the layer wrap a `reqwest::Client`.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod authority;
mod closed;
mod error;
mod hints;
mod layer;
mod message;
#[cfg(feature = "reqwest")]
mod reqwest;
mod service;
mod shared;

pub use authority::Authority;
pub use error::{OutgoingError, Paced};
pub use hints::{RemainingHeaders, ResetFormat};
pub use layer::OutgoingLayer;
pub use message::{OutgoingRequest, OutgoingResponse};
pub use service::{Outgoing, OutgoingFuture};
