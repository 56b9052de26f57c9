//! The `portcullis` command.
//!
//! ```text
//! portcullis replay tests/data/*.toml --store memory
//! ```

mod replay;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Rate limiting at the gate: tools for those who write rules and stores.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, about)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Replay(replay::Replay),
}

fn main() -> ExitCode {
    let Arguments { verb: Verb::Replay(replay) } = Arguments::parse();
    match replay.run() {
        Ok(report) if report.is_success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(DIFFERENT),
        Err(error) => {
            eprintln!("portcullis: {error:#}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

const DIFFERENT: u8 = 1;
/// What clap exits with for arguments that it does not understand.
const BAD_INPUT: u8 = 2;
