//! The whole of Portcullis against real servers, clients and processes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod grpc;
mod layer;
mod process;
mod processes;
mod queue;
mod quickstart;
mod rotation;
mod scenarios;
mod secrets;
mod tls;
