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

/// A random number above 0 and at most 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
pub fn unit(random: &mut impl rand_pcg::rand_core::Rng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}
