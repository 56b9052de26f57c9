//! The guarantees of a store under server faults, checked from what its callers observe.
//!
//! Processes record every [operation](Op), and a [checker] tests all records together against nine rules.
//! The servers and the injected faults are in `tests/faults`.

pub mod checker;
mod history;
mod population;

pub use history::{
    Answer, AnsweredBy, Call, Correction, Failure, Op, Outcome, ParseOpError, monotonic_micros,
};
pub use population::{Family, KeyId, ROTATION_MICROS};
