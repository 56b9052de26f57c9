//! The memory store and its fallback through their public API.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fallback;
mod memory;
mod overrides;
mod timelines;
mod two_quotas;
