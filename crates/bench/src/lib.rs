//! Measures several cases against each other in one run, and shows the comparison.

mod calls;
mod comparison;
mod machine;
mod options;
pub mod redis;
pub mod regions;
mod rounds;
pub mod server;

pub use calls::calls;
pub use comparison::{Comparison, Target, digits, markdown};
pub use machine::machine;
pub use options::BenchOptions;
pub use rounds::{Case, Round, Spread, interleaved, medians};
