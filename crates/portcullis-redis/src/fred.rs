//! The client `fred`: its configuration, its connections, and the commands that are sent through it.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod command;
mod error;
pub(crate) mod link;
pub(crate) mod live;
pub(crate) mod loader;
mod value;
