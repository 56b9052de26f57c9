//! The arithmetic against the book, and the tools against themselves.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clock_steps;
mod corpora;
mod exactness;
mod format;
mod lemmas;
mod net_promises;
mod promises;
#[cfg(feature = "servers")]
mod servers;
mod shares;
mod states;
mod timelines;
