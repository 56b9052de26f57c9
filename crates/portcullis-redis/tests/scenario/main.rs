//! The store with the caller's clock, on real servers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod combined;
mod constant;
mod format;
mod in_flight;
mod leases;
mod overrides;
mod remembered;
mod remembered_corpora;
mod repeated;
mod sliding_log;
mod support;
mod timelines;
mod walks;
mod windows;
