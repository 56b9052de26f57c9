//! Set-up and checks of this repository, in Rust instead of shell. `cargo xtask help` lists the commands.

mod bench;
mod cmd;
mod compare;
mod faults;
mod instructions;
mod lines;
mod python;
mod test;
#[cfg(test)]
mod tests;
mod tools;
mod wasm;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Set-up and checks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Installs what the tests need, then runs all checks and tests in order
    Test(test::TestOptions),
    /// Measures what each algorithm costs and how often it is wrong
    Compare(compare::CompareOptions),
    /// Measures times, rates and allocations beside those of other rate limiters: takes about 10 minutes
    Bench(bench::BenchOptions),
    /// Injects the faults of operation into real servers, and checks what callers saw: takes about 15 minutes
    Faults(faults::FaultOptions),
    /// Prints the lines of source of each crate, without tests
    Lines,
    /// Builds the book into the folder of builds, and checks its links
    Book,
    /// Checks that every crate can be published, and prints the steps that remain
    Release,
    /// Builds the engine of the playground as WebAssembly
    Wasm(wasm::WasmOptions),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Lines => lines::run(),
        Command::Book => workspace::Workspace::load().and_then(|workspace| test::book::run(&workspace)),
        Command::Release => test::release::run(),
        Command::Wasm(options) => wasm::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("\nbecause: {cause}");
            }
            error.downcast_ref::<cmd::Failed>().map_or(ExitCode::FAILURE, cmd::Failed::exit_code)
        }
    }
}
