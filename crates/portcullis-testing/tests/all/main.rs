//! Tests of the arithmetic of `portcullis-core` against its specification, and of the tools of this crate.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clock_steps;
mod corpora;
mod exactness;
mod format;
mod lemmas;
mod net_promises;
mod overrides;
mod promises;
mod shares;
mod states;
mod timelines;
