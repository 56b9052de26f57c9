//! Behind a real nginx and a real HAProxy, configured as in the docs, a client cannot choose its address. A real Prometheus scrapes an
//! example, with the alerts and the dashboard of the docs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod forgeries;
mod oracle;
mod process;
mod prometheus;
mod recipes;
mod snippets;
