//! What is done to servers and networks, and undone.

pub(crate) mod cluster;
pub(crate) mod failover;
pub(crate) mod network;
pub(crate) mod server;
