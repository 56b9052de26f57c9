//! The client `fred`: its configuration, its connections, and the commands that are sent through it.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod link;
pub(crate) mod loader;
