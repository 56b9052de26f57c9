//! The connection against real servers, which the tests start.

mod access;
pub(crate) mod cluster;
mod cut;
mod deadline;
mod outage;
mod overload;
mod proxy;
mod refusals;
mod scripts;
mod sentinel;
pub(crate) mod server;
mod silence;
mod survey;
pub(crate) mod waiting;
mod window;
