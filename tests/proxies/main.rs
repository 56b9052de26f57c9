//! Behind a real nginx and a real HAProxy, configured as in the docs, a client cannot choose its address.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod forgeries;
mod oracle;
mod process;
mod recipes;
mod snippets;
