//! Load shedding: a layer that rejects requests because the service is overloaded, not because a client is over its quota. See
//! [`ShedLayer`].
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
