//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// What is measured.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
pub struct Options {
    /// The tables to print
    #[arg(value_enum, default_value_t)]
    pub tables: Tables,
    #[command(flatten)]
    pub(crate) common: portcullis_bench::BenchOptions,
    /// The module redis-cell, to compare with it as well
    #[arg(long, value_name = "PATH")]
    pub redis_cell: Option<PathBuf>,
    /// Print by how many bytes the process grows with the keys of one limiter, and nothing else
    #[arg(long, hide = true, value_name = "LIMITER")]
    pub growth_of: Option<Limiter>,
}

/// A limiter in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Limiter {
    /// the memory store
    Ours,
    /// governor's keyed limiter
    Governor,
    /// throttlecrab's limiter
    Throttlecrab,
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Options {
    pub(crate) fn includes(&self, tables: Tables) -> bool {
        self.tables == Tables::All || self.tables == tables
    }

    /// The text above the tables: the command that repeats the measurement, and its conditions.
    pub(crate) fn heading(&self, conditions: &str) -> String {
        let tables = self.tables.to_possible_value();
        let tables = tables.as_ref().map_or("", |value| value.get_name());
        let module = self.redis_cell.iter().map(|path| format!(" --redis-cell {}", path.display()));
        self.common.heading(&format!("{tables}{}", module.collect::<String>()), conditions)
    }
}

/// The subjects that can be measured alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Tables {
    /// decisions in memory
    Memory,
    /// the layer around an Axum router
    Layer,
    /// real servers under `wrk`
    Serve,
    /// decisions in Redis
    Redis,
    /// all of them
    #[default]
    All,
}
