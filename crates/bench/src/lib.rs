//! Measures several cases against each other in one run, and shows the comparison.
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "an error or a panic ends a measurement: a program or a server does not do what is asked"
)]

mod calls;
mod comparison;
mod machine;
mod options;
pub mod process;
pub mod redis;
pub mod regions;
mod rounds;
pub mod server;
pub mod wrk;

pub use calls::calls;
pub use comparison::{Comparison, Target, digits, markdown};
pub use machine::machine;
pub use options::BenchOptions;
pub use rounds::{Case, Round, Spread, interleaved, medians};

/// Runs each item on its own thread: they share nothing.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || run(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that only counts ends")).collect()
    })
}

/// A random number above 0 and at most 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
pub fn unit(random: &mut impl rand_pcg::rand_core::Rng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}
