//! The connection against real servers, which the tests start.

mod access;
mod cluster;
mod outage;
mod scripts;
mod sentinel;
pub(crate) mod server;
mod silence;
