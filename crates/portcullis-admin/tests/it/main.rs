//! The API over a registry with a store in memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests may do what tests may")]

mod changes;
mod guard;
mod hostile;
mod names;
mod openapi;
mod privacy;
mod reference;
mod rejections;
mod routes;
mod stores;
mod streams;
mod support;
