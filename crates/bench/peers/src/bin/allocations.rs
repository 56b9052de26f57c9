//! Allocations beside other rate limiters: `cargo xtask bench`.

use anyhow::Result;
use clap::Parser as _;
use portcullis_peers::{Allocated, Options};

fn main() -> Result<()> {
    portcullis_peers::allocations(&Options::parse(), |run| {
        let counted = allocation_counter::measure(run);
        Allocated { count: counted.count_total, bytes: counted.bytes_current }
    })
}
