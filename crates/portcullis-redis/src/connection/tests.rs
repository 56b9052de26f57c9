//! The connection against real servers, which the tests start.

mod access;
pub(crate) mod cluster;
mod outage;
mod scripts;
mod sentinel;
pub(crate) mod server;
mod silence;
