//! Tests of all crates together against real servers, clients and processes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod balance;
mod calendar;
mod clients;
mod debts;
mod decorated;
mod grpc;
mod grpc_web;
mod handler_checks;
mod in_flight;
mod layer;
mod lists;
mod lock_outs;
mod messages;
mod modes;
mod off;
mod outage;
mod outcomes;
mod policy_changes;
mod precedence;
mod process;
mod processes;
mod queue;
mod quickstart;
mod quotas;
mod reservations;
mod rotation;
mod scenarios;
mod secrets;
mod shares;
mod soft_limits;
mod spread;
mod tls;
mod transcripts;
mod untouched;
mod waits;
