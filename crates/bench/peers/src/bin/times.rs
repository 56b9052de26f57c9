//! Times and rates beside other rate limiters: `cargo xtask bench`.

use anyhow::Result;
use clap::Parser as _;
use portcullis_peers::Options;

fn main() -> Result<()> {
    portcullis_peers::times(&Options::parse())
}
