//! `cargo xtask bench`: our times, rates and allocations beside those of other rate limiters.

mod page;
mod peers;

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::cmd::Cmd;
use crate::instructions;
use crate::tools;
use crate::workspace::Workspace;

/// A workspace of its own, so that nothing else builds the other rate limiters.
pub(crate) const MANIFEST: &str = "crates/bench/peers/Cargo.toml";

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// The tables to print
    #[arg(value_enum, default_value_t)]
    tables: Tables,
    /// A smoke run of a few seconds, whose figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Rewrites the tables of docs/reference/measurements.md, and records the counts of `instructions`
    #[arg(long, conflicts_with = "quick")]
    write: bool,
    /// The module redis-cell, to compare with it as well
    #[arg(long, value_name = "PATH")]
    redis_cell: Option<PathBuf>,
    /// The program `limitador-server`, built from its source, to compare with it as well
    #[arg(long, value_name = "PATH")]
    limitador: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Tables {
    /// decisions in memory
    Memory,
    /// the layer around an Axum router
    Layer,
    /// requests by the form of their response
    Responses,
    /// real servers under `wrk`
    Serve,
    /// the reverse proxy under `wrk`, beside nginx, HAProxy and Caddy
    Proxy,
    /// Envoy's rate limit service over gRPC, beside other services
    ServeEnvoy,
    /// decisions in Redis
    Redis,
    /// decisions per second of one process and one Redis, by algorithm
    Decisions,
    /// known keys and the memory of the process during a flood of ten million others
    Flood,
    /// a simulation of ways to keep a limit in 20 regions
    Regions,
    /// requests with and without metrics
    Metrics,
    /// lines of access logs per second of `portcullis simulate`
    Simulate,
    /// crates, build time and bytes of a first program
    Hello,
    /// instructions of decisions, which do not depend on the machine's speed
    Instructions,
    /// all of them
    #[default]
    All,
}

/// Measures in a release build; allocations in a second program, whose allocator counts.
pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    let found = |path: &Option<PathBuf>| {
        // The programs run in the root of the workspace.
        let found = |path: &PathBuf| {
            fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))
        };
        path.as_ref().map(found).transpose()
    };
    let (redis_cell, limitador) = (found(&options.redis_cell)?, found(&options.limitador)?);
    let options = BenchOptions { redis_cell, limitador, ..*options };
    for tables in options.tables.each() {
        let report = measure(&workspace, tables, &options)?;
        if options.write && !report.contains(NOT_MEASURED) {
            page::write(&workspace.root, tables, &report)?;
        }
    }
    Ok(())
}

/// Measures one subject, and returns what is printed about it.
fn measure(workspace: &Workspace, tables: Tables, options: &BenchOptions) -> Result<String> {
    if tables == Tables::Instructions {
        let report = instructions::bench(workspace, options.write)?;
        println!("{report}");
        return Ok(report);
    }
    match tables {
        Tables::Redis | Tables::Decisions => tools::ensure_installed(tools::SERVERS, &workspace.root)?,
        // The program reports that it has measured nothing, so that the other tables are still printed.
        Tables::Serve | Tables::Proxy => {
            if let Err(error) = tools::ensure_installed(tools::LOAD, &workspace.root) {
                println!("{error:#}");
            }
        }
        _ => {}
    }
    let mut report = String::new();
    let mut commands = commands(workspace, tables, options);
    if let Some(program) = commands.pop() {
        let others = peers::arguments(workspace, tables, options);
        commands.push(others.iter().fold(program, |program, (flag, path)| program.args(flag).path(path)));
    }
    for command in commands {
        command.run_reading(&workspace.root, |line| report.push_str(line))?;
    }
    Ok(report)
}

impl Tables {
    /// These tables, one subject after the other.
    fn each(self) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        if self == Self::All { all.filter(|tables| *tables != Self::All).collect() } else { vec![self] }
    }
}

/// The programs that measure one subject.
fn commands(workspace: &Workspace, tables: Tables, options: &BenchOptions) -> Vec<Cmd> {
    let peers = |program: &str| peers_program(workspace, program, tables, options);
    match tables {
        Tables::Memory | Tables::Layer => vec![peers("times"), peers("allocations")],
        Tables::Serve | Tables::Redis => vec![peers("times")],
        Tables::Proxy | Tables::ServeEnvoy | Tables::Simulate => {
            let server = "build --quiet --locked --release --package portcullis-cli --bin portcullis";
            vec![Cmd::cargo().args(server), with_quick(own(&tables.to_string()), options)]
        }
        Tables::Responses
        | Tables::Decisions
        | Tables::Flood
        | Tables::Hello
        | Tables::Regions
        | Tables::Metrics => {
            vec![with_quick(own(&tables.to_string()), options)]
        }
        Tables::Instructions | Tables::All => Vec::new(),
    }
}

/// A program that measures other rate limiters as well. Without `--locked`: cargo adds to the lock file of the measurements what a
/// change of the workspace needs.
fn peers_program(workspace: &Workspace, program: &str, tables: Tables, options: &BenchOptions) -> Cmd {
    let command = Cmd::cargo()
        .args("run --quiet --release --manifest-path")
        .args(MANIFEST)
        .args("--target-dir")
        .path(&workspace.target("peers"))
        .args("--bin")
        .args(program)
        .args("--")
        .args(&tables.to_string());
    let command = with_quick(command, options);
    match &options.redis_cell {
        Some(path) => command.args("--redis-cell").path(path),
        None => command,
    }
}

/// A program that measures nothing else.
pub(crate) fn own(program: &str) -> Cmd {
    let run = "run --quiet --locked --release --package portcullis-bench --bin";
    Cmd::cargo().args(run).args(program).args("--")
}

fn with_quick(command: Cmd, options: &BenchOptions) -> Cmd {
    if options.quick { command.args("--quick") } else { command }
}

/// The name on the command line.
impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// What a program prints in place of a table that it cannot measure.
const NOT_MEASURED: &str = "**NOT MEASURED";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: BenchOptions,
    }

    #[test]
    fn options_are_passed_to_the_programs() {
        let workspace = Workspace::load().unwrap();
        let lines = |words: &[&str]| {
            let options = Cli::try_parse_from([&["bench"], words].concat()).unwrap().options;
            let line = |command: Cmd| {
                let line = command.to_string();
                line.split_once(" --bin ").unwrap().1.to_owned()
            };
            let commands = |tables| commands(&workspace, tables, &options);
            options.tables.each().into_iter().flat_map(commands).map(line).collect::<Vec<_>>()
        };
        let all = [
            "times -- memory",
            "allocations -- memory",
            "times -- layer",
            "allocations -- layer",
            "responses --",
            "times -- serve",
            "portcullis",
            "proxy --",
            "portcullis",
            "serve-envoy --",
            "times -- redis",
            "decisions --",
            "flood --",
            "regions --",
            "metrics --",
            "portcullis",
            "simulate --",
            "hello --",
        ];
        assert_eq!(lines(&[]), all);
        assert_eq!(
            lines(&["memory", "--quick"]),
            ["times -- memory --quick", "allocations -- memory --quick"]
        );
        let with_module = lines(&["redis", "--redis-cell", "/a b.so"]);
        assert_eq!(with_module, ["times -- redis --redis-cell '/a b.so'"]);
        assert_eq!(lines(&["flood", "--quick"]), ["flood -- --quick"]);
        assert!(lines(&["instructions"]).is_empty());
        assert!(Cli::try_parse_from(["bench", "--quick", "--write"]).is_err());
    }
}
