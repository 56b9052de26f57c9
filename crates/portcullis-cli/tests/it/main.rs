//! The command as a process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admin;
mod admin_api;
mod admin_names;
mod admin_tls;
mod check;
mod explain;
mod fleet;
mod identify;
#[cfg(unix)]
mod open_files;
mod pages;
mod proto;
mod proxy;
mod replay;
mod rules;
mod serve;
mod service_log;
mod simulate;
mod snippets;
