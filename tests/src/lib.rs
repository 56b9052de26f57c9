//! The whole of Portcullis against real servers, clients and processes: see `it/`.

pub mod faults;
