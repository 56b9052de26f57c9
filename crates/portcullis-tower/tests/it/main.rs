//! The layer around services, under Axum and Tonic, over stores that answer at once, answer later and fail.
#![allow(clippy::unwrap_used, reason = "helpers of tests may do what tests may")]

mod allocations;
mod answers;
#[cfg(feature = "axum")]
mod axum;
mod bodies;
mod calendar;
mod charges;
mod defaults;
mod details;
mod dialects;
mod events;
mod failure;
mod fallback;
mod fast_path;
mod forged;
mod grants;
mod handler_checks;
mod in_flight;
mod install;
mod interleavings;
mod inventory;
mod keys;
mod leaving;
mod listed;
mod lists;
mod lock_out;
mod log;
mod lookup_counts;
mod lookups;
mod messages;
mod modes;
mod no_charge;
mod observers;
mod off;
#[cfg(feature = "openapi")]
mod openapi;
mod outcomes;
mod overload;
mod policies;
mod policy_changes;
mod preflights;
mod probe;
mod quotas;
mod rejections;
mod reservations;
mod service;
mod shadows;
mod soft_limits;
mod spans;
mod spread;
mod steps;
mod support;
mod tags;
#[cfg(feature = "tonic")]
mod tonic;
mod tuples;
mod two_decisions;
mod values;
mod waiting;
mod waits;
mod warnings;
