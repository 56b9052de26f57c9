//! What is counted of real layers, and what that costs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod allocations;
mod balance;
mod concurrency;
mod corrections;
mod flood;
mod generation;
mod lookups;
mod outcomes;
mod support;
mod table;
mod waits;
