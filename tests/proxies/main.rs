//! Behind a real nginx and a real HAProxy, as the book sets them up, a client cannot choose whom it is taken for.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod book;
mod forgeries;
mod oracle;
mod process;
mod recipes;
