//! Faults against real servers: `cargo xtask faults`.
//!
//! Worker processes call a store, a fault is injected into its servers or the network, and after the repair the workers'
//! records are checked against the rules of [`portcullis_histories`].
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod environment;
mod faults;
mod figures;
mod grants;
mod in_flight;
mod inject;
mod layered;
mod mixed;
mod runner;
mod single_key;
mod soak;
mod table;
mod worker;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use portcullis_histories::monotonic_micros;

use self::faults::Topology;
use self::table::Table;

/// Injects faults into real servers and checks what callers observe.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask faults", bin_name = "cargo xtask faults")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Leaves out the soak
    #[arg(long)]
    short: bool,
    /// Runs one fault of each kind, and no soak
    #[arg(long)]
    sample: bool,
    /// Runs only the faults whose name contains this; `soak` selects the soak
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Repeats the random choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// The duration of the soak: half of it on one server, the rest on a cluster and behind sentinels
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    soak: u64,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs as one of the worker processes
    #[command(hide = true)]
    Worker(worker::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Some(Command::Worker(options)) => worker::run(options),
        None => run(&cli),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let seed = cli.seed.unwrap_or_else(|| monotonic_micros() % 1_000_000);
    println!("the seed is {seed}");
    let is_wanted = |name: &str| cli.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut table = Table::default();
    let faults = faults::ALL.iter().filter(|fault| fault.is_sample || !cli.sample);
    for fault in faults.filter(|fault| is_wanted(fault.name)) {
        table.add(runner::run(fault, seed)?);
    }
    for (topology, tenths) in Topology::ALL {
        if !cli.short && !cli.sample && is_wanted(topology.name()) {
            table.add(soak::run(topology, Duration::from_secs(cli.soak * 6 * tenths), seed)?);
        }
    }
    ensure!(!table.is_empty(), "no fault has this name");
    println!("\n{table}");
    let failed = table.failed();
    ensure!(failed.is_empty(), "{} with --seed {seed}, see above", failed.join(", "));
    Ok(())
}
