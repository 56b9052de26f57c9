//! Faults against real servers: `cargo xtask faults`.
//!
//! Processes ask a store for a while, something is done to its servers or to the way there, and when all is well again
//! what the processes saw is held against the rules of [`portcullis_tests::faults`].
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod act;
mod crew;
mod faults;
mod field;
mod figures;
mod proxy;
mod runner;
mod soak;
mod table;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use portcullis_tests::faults::monotonic_micros;

use self::faults::Scene;
use self::table::Table;

/// Faults against real servers, and what callers saw.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask faults", bin_name = "cargo xtask faults")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Leaves out the soak
    #[arg(long)]
    short: bool,
    /// Only the faults with this in their name; `soak` is the soak
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Repeats the choices of a run
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults at random last, half of it on one server, the rest in a cluster and behind sentinels
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    soak: u64,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One of the processes that ask
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
    for fault in faults::ALL.iter().filter(|fault| is_wanted(fault.name)) {
        table.add(runner::run(fault, seed)?);
    }
    for (scene, tenths) in Scene::ALL {
        if !cli.short && is_wanted(scene.name()) {
            table.add(soak::run(scene, Duration::from_secs(cli.soak * 6 * tenths), seed)?);
        }
    }
    ensure!(!table.is_empty(), "no fault has this in its name");
    println!("\n{table}");
    let failed = table.failed();
    ensure!(failed.is_empty(), "{} with --seed {seed}, see above", failed.join(", "));
    Ok(())
}
