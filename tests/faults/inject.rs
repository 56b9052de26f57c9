//! The injected faults of servers and networks, with their repair.

pub(crate) mod cluster;
pub(crate) mod failover;
pub(crate) mod network;
pub(crate) mod server;
