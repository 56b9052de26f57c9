//! What is counted of real layers, and what that costs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod allocations;
mod balance;
mod concurrency;
mod corrections;
mod dropped;
mod failing;
mod flood;
mod generation;
mod lock_outs;
mod lookups;
mod need;
mod outages;
mod outcomes;
mod overloads;
mod permits;
mod reloads;
mod settlements;
mod shedding;
mod soft_limits;
mod support;
mod table;
mod waits;
mod warnings;
