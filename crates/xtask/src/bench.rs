//! `cargo xtask bench`: our times, rates and allocations beside those of other rate limiters.

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
pub(crate) struct Options {
    /// The tables to print
    #[arg(value_enum, default_value_t)]
    tables: Tables,
    /// A smoke run of a few seconds, whose figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Records the counts of `instructions`
    #[arg(long)]
    write: bool,
    /// The module redis-cell, to compare with it as well
    #[arg(long, value_name = "PATH")]
    redis_cell: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Tables {
    /// decisions in memory
    Memory,
    /// the layer around an Axum router
    Layer,
    /// decisions in Redis
    Redis,
    /// instructions of decisions, which do not depend on the machine's speed
    Instructions,
    /// all of them
    #[default]
    All,
}

/// Measures in a release build; allocations in a second program, whose allocator counts.
pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    if options.tables == Tables::Instructions {
        println!("{}", instructions::bench(&workspace, options.write)?);
        return Ok(());
    }
    if matches!(options.tables, Tables::Redis | Tables::All) {
        tools::ensure_installed(tools::SERVERS, &workspace.root)?;
    }
    let module = options.redis_cell.as_ref().map(|path| {
        // The programs run in the root of the workspace.
        fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))
    });
    let module = module.transpose()?;
    let options = Options { redis_cell: module, ..*options };
    for program in programs(options.tables) {
        command(&workspace, program, &options).run(&workspace.root)?;
    }
    Ok(())
}

/// Checks that the measurements compile.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo("clippy --all-targets --manifest-path")
        .args(MANIFEST)
        .args("--target-dir")
        // That of the workspace, for the dependencies that both have with the same features.
        .path(&workspace.shared_target())
        .args("-- -D warnings")
        .run(&workspace.root)
}

fn programs(tables: Tables) -> &'static [&'static str] {
    if tables == Tables::Redis { &["times"] } else { &["times", "allocations"] }
}

/// Without `--locked`: cargo adds to the lock file of the measurements what a change of the workspace needs.
fn command(workspace: &Workspace, program: &str, options: &Options) -> Cmd {
    let tables = options.tables.to_possible_value();
    let mut command = Cmd::cargo()
        .args("run --quiet --release --manifest-path")
        .args(MANIFEST)
        .args("--target-dir")
        .path(&workspace.target("peers"))
        .args("--bin")
        .args(program)
        .args("--")
        .args(tables.as_ref().map_or("", |value| value.get_name()));
    if options.quick {
        command = command.args("--quick");
    }
    match &options.redis_cell {
        Some(path) => command.args("--redis-cell").path(path),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn options_are_passed_to_the_programs() {
        let workspace = Workspace::load().unwrap();
        let lines = |words: &[&str]| {
            let options = Cli::try_parse_from([&["bench"], words].concat()).unwrap().options;
            let line = |program: &&str| {
                let line = command(&workspace, program, &options).to_string();
                line.split_once(" --bin ").unwrap().1.to_owned()
            };
            programs(options.tables).iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(lines(&[]), ["times -- all", "allocations -- all"]);
        assert_eq!(
            lines(&["memory", "--quick"]),
            ["times -- memory --quick", "allocations -- memory --quick"]
        );
        let with_module = lines(&["redis", "--redis-cell", "/a b.so"]);
        assert_eq!(with_module, ["times -- redis --redis-cell '/a b.so'"]);
    }
}
