//! The bound of leases, checked by exploring every order of events on small numbers.
//!
//! Processes and a store exchange calls that may be delayed, lost or answered late. Processes use the
//! [protocol](portcullis_core::lease) itself, not a copy of it, and the store uses the arithmetic of `portcullis-core`. How much
//! is leased is left open: the search tries every number, at every time at which the protocol accepts it.
//!
//! The search ends because time ends after a few steps and faults are counted. A lost call stands for an outage: what the
//! failure mode of a policy admits meanwhile is a budget of its own, and does not depend on leases.

mod action;
mod audit;
mod model;
mod system;

pub use action::{Action, Fate};
pub use model::Leases;
pub use system::System;

#[cfg(test)]
mod tests;
