//! The connection with real servers, which the tests start.

mod access;
pub(crate) mod cluster;
mod deadline;
mod eval;
mod frozen;
mod in_flight;
mod lost_reply;
mod outage;
mod overload;
mod refusals;
mod renewal;
pub(crate) mod scripts;
mod sentinel;
pub(crate) mod server;
mod server_info;
pub(crate) mod waiting;
