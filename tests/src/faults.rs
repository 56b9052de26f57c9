//! What is true of a store whatever becomes of its servers, and how to find out from what its callers saw.
//!
//! Processes write down every [operation](Op), and a [checker] holds all of them together against four rules.
//! The servers, and what is done to them, are in `tests/faults`.

pub mod checker;
mod history;
mod population;
mod random;

pub use history::{Answer, Call, Correction, Failure, Op, Outcome, ParseOpError, monotonic_micros};
pub use population::{Family, KeyId, ROTATION_MICROS};
pub use random::Random;
