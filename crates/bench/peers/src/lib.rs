//! The stores and the layer beside other rate limiters, in one process per program and in interleaved rounds.
//!
//! `cargo xtask bench` runs the two programs: `times` with the allocator of the system, and `allocations` with one that counts,
//! which would slow down those that allocate most.
#![allow(clippy::cast_precision_loss, reason = "counts, bytes and times far below 2^52")]
#![allow(
    clippy::missing_errors_doc,
    reason = "an error is a case that fails, or decides otherwise than expected"
)]

mod layer;
mod memory;
mod options;
mod redis_server;
mod report;
mod scale;

use anyhow::Result;

pub use options::{Limiter, Options, Tables};

use self::scale::Scale;

/// Prints the tables of times and rates.
pub fn times(options: &Options) -> Result<()> {
    let scale = Scale::of(options);
    println!("{}", report::header(options, &scale)?);
    if options.includes(Tables::Memory) {
        println!("{}", memory::times(&scale)?);
    }
    if options.includes(Tables::Layer) {
        println!("{}", layer::times(&scale)?);
    }
    if options.includes(Tables::Serve) {
        println!("{}", layer::rates(&scale)?);
    }
    if options.includes(Tables::Redis) {
        for table in redis_server::measure(&scale, options.redis_cell.as_deref())? {
            println!("{table}");
        }
    }
    Ok(())
}

/// Prints the tables of allocations, as `measure` counts them.
pub fn allocations(options: &Options, measure: Measure) -> Result<()> {
    let scale = Scale::of(options);
    if let Some(limiter) = options.growth_of {
        return memory::growth(&scale, limiter);
    }
    if options.includes(Tables::Memory) {
        println!("{}", memory::allocations(&scale, options, measure)?);
    }
    if options.includes(Tables::Layer) {
        println!("{}", layer::allocations(&scale, measure)?);
    }
    Ok(())
}

/// Runs a closure on the thread that calls it, and counts what it allocates.
pub type Measure = fn(&mut dyn FnMut()) -> Allocated;

/// What a closure has allocated.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// The number of allocations.
    pub count: u64,
    /// The bytes that were still allocated at its end, in the sizes that were requested.
    pub bytes: i64,
}
