//! The client `fred`: its configuration, its connections, and the commands that are sent through it.
//!
//! No other module names it, except in the documentation of what users pass. Within this module it is `::fred`.

pub(crate) mod address;
pub(crate) mod command;
pub(crate) mod config;
mod error;
pub(crate) mod link;
pub(crate) mod live;
pub(crate) mod loader;
mod value;

pub(crate) use ::fred::clients::{Client, Pool};

#[cfg(test)]
mod tests;
