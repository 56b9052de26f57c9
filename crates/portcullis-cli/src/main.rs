//! The `portcullis` command.
//!
//! ```text
//! portcullis replay tests/data/*.toml tests/data/overrides/*.toml --store memory
//! portcullis identify --peer 10.0.0.1 --source x-forwarded-for --trust 10.0.0.0/8 -H 'X-Forwarded-For: 192.0.2.1'
//! ```

mod identify;
mod replay;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Rate limiting: tools for authors of policies and stores.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Replay),
    Identify(identify::Identify),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Replay(replay) => replay.run().map(|report| report.is_success()),
        Command::Identify(identify) => identify.run().map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(error) => {
            eprintln!("portcullis: {error:#}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// A case does not go as its file expects.
const DIFFERENT: u8 = 1;
/// The exit code of clap for invalid arguments.
const BAD_INPUT: u8 = 2;
