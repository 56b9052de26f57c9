//! Measures several cases against each other in one run, and shows the comparison.

mod comparison;
mod machine;
pub mod redis;
pub mod regions;
mod rounds;
pub mod server;

pub use comparison::{Comparison, Target, digits, markdown};
pub use machine::{machine, marks_of_quick};
pub use rounds::{Case, Round, Spread, interleaved, medians};
