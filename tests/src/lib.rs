//! Tests of all crates together against real servers, clients and processes: see `it/`.

pub mod faults;
