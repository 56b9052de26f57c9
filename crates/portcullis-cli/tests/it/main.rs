//! The command as a process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod identify;
mod replay;
