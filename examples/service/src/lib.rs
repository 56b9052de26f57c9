//! A shop with pages, log-ins, an API and gRPC, whose limits are all in [`limits`].

pub mod api;
pub mod limits;
pub mod operators;
pub mod public;
