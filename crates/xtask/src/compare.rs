//! `cargo xtask compare`: the algorithms on the same traffic, in numbers.

use anyhow::Result;
use clap::Args;

use crate::bench;
use crate::tools;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct CompareOptions {
    /// Rewrites the tables of docs/reference/measurements.md and the chart docs/images/trade-offs.svg
    #[arg(long)]
    write: bool,
    /// Measures only the bytes per key, and prints them
    #[arg(long, conflicts_with = "write")]
    bytes: bool,
}

/// Measures in a release build, against its own server.
pub(crate) fn run(options: &CompareOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    tools::ensure_installed(tools::SERVERS, &workspace.root)?;
    let arguments = match options {
        CompareOptions { write: true, .. } => "--write",
        CompareOptions { bytes: true, .. } => "--bytes",
        CompareOptions { .. } => "",
    };
    bench::own("compare").args(arguments).run(&workspace.root)
}
