//! The client `fred`: its configuration, its connections, and the commands that are sent through it.

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
