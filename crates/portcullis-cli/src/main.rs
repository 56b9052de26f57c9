//! The `portcullis` command.
//!
//! ```text
//! portcullis replay tests/data/*.toml tests/data/overrides/*.toml --store memory
//! portcullis simulate limits.toml --log access.log
//! portcullis identify --peer 10.0.0.1 --source x-forwarded-for --trust 10.0.0.0/8 -H 'X-Forwarded-For: 192.0.2.1'
//! portcullis check limits.toml
//! portcullis explain limits.toml --request 'GET /search' -H 'x-api-key: k'
//! portcullis serve limits.toml --store redis://127.0.0.1:6379
//! portcullis proxy limits.toml --upstream http://127.0.0.1:3000
//! portcullis proto protos/
//! portcullis admin http://127.0.0.1:9090 policies
//! ```

mod commands;
mod service;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{check, explain, identify, proto, proxy, replay, rules, serve};
use portcullis::redis::RedisLimiterError;
use portcullis_cli::admin::Admin;
use portcullis_cli::simulate::{Diff, Simulate};
use portcullis_cli::{findings, kind, load, request};
use portcullis_redis::SetupError;

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
    Check(check::Check),
    Explain(explain::Explain),
    /// Prints the JSON Schema of rules files, by which editors complete and check them.
    Schema,
    #[command(subcommand)]
    Rules(rules::Rules),
    Serve(Box<serve::Serve>),
    Proxy(Box<proxy::Proxy>),
    Proto(proto::Proto),
    Simulate(Simulate),
    Diff(Diff),
    Admin(Admin),
}

/// A request through the proxy takes a tenth less of the processor than with the allocator of the C library, and the proxy passes 7 % more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Replay(replay) => replay.run().map(|report| report.is_success()),
        Command::Identify(identify) => identify.run().map(|()| true),
        Command::Check(check) => check.run(),
        Command::Explain(explain) => explain.run(),
        Command::Schema => {
            // The reader of a pipe may have closed it.
            let _ = writeln!(io::stdout(), "{:#}", portcullis_config::schema());
            Ok(true)
        }
        Command::Rules(rules) => rules.run(),
        Command::Serve(serve) => serve.run(),
        Command::Proxy(proxy) => proxy.run(),
        Command::Proto(proto) => proto.run().map(|()| true),
        Command::Simulate(simulate) => simulate.run(),
        Command::Diff(diff) => diff.run(),
        Command::Admin(admin) => admin.run(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(error) => {
            eprintln!("portcullis: {error:#}{}", code_of(&error));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// The code of an error in parentheses, if it has one.
fn code_of(error: &anyhow::Error) -> String {
    let of_store = match error.downcast_ref() {
        Some(RedisLimiterError::Store(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    match of_store {
        Some(SetupError::Connect(error)) => format!(" ({})", error.code()),
        _ => String::new(),
    }
}

/// A case does not go as its file expects, a file has errors, or a server refuses.
const DIFFERENT: u8 = 1;
/// The exit code of clap for invalid arguments.
const BAD_INPUT: u8 = 2;
