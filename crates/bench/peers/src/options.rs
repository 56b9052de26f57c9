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
    /// A smoke run of a few seconds, whose figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// The module redis-cell, to compare with it as well
    #[arg(long, value_name = "PATH")]
    pub redis_cell: Option<PathBuf>,
}

impl Options {
    pub(crate) fn includes(&self, tables: Tables) -> bool {
        self.tables == Tables::All || self.tables == tables
    }
}

/// The command that repeats the measurement.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.tables.to_possible_value();
        write!(f, "cargo xtask bench {}", tables.as_ref().map_or("", |value| value.get_name()))?;
        if self.quick {
            f.write_str(" --quick")?;
        }
        match &self.redis_cell {
            Some(path) => write!(f, " --redis-cell {}", path.display()),
            None => Ok(()),
        }
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
