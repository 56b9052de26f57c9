//! `cargo xtask test`: all checks, in an order that fails early.

mod circles;
mod client_module;
mod clients;
mod dependencies;
mod fuzzers;
mod guides;
mod links;
mod no_std;
mod proxies;
mod python;
mod release;
mod rules;
mod tally;
mod toolchain;
mod unsafe_module;
mod valkey;

use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use anyhow::{Error, Result, anyhow, ensure};
use clap::{Args, ValueEnum};

use self::tally::Tally;
use crate::bench;
use crate::cmd::{Cmd, Failed};
use crate::faults;
use crate::instructions;
use crate::tools;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also runs the checks that are slow or need more programs
    #[arg(long)]
    pub(crate) all: bool,
    /// Runs these steps only, in their usual order
    steps: Vec<Step>,
}

/// The steps, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// the programs that the tests start; missing ones are installed
    Tools,
    /// the compiler, its components, and the oldest supported version
    Toolchain,
    /// cargo fmt
    Format,
    /// file sizes, dead links, dependencies that point the wrong way or in a circle
    Rules,
    /// cargo clippy, warnings are errors; with --all, or by name
    Lint,
    /// cargo doc, warnings are errors; with --all, or by name
    Docs,
    /// the core compiles without std, and the check fails with std
    NoStd,
    /// unit and integration tests
    Tests,
    /// the examples in the documentation
    Doctests,
    /// instructions of decisions beside the recorded ones; with --all, or by name
    Instructions,
    /// the published crates build with each of their features alone; with --all, or by name
    Features,
    /// licences and sources of dependencies, packages, and the last release's API; with --all, or by name
    Release,
    /// limits behind a real nginx, haproxy, Envoy and Caddy; with --all, or by name
    Proxies,
    /// the Redis store and the scenarios on Valkey; with --all, or by name
    Valkey,
    /// curl, urllib3, grpcio and a browser against limited servers; with --all, or by name
    Clients,
    /// thirty faults of servers and networks under load; with --all, or by name
    Faults,
}

/// Runs the steps up to the first failure, and prints at the end how long each took.
pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Step::value_variants().to_vec();
    if options.steps.is_empty() {
        steps.retain(|step| options.all || !step.is_for_all_only());
    } else {
        steps.retain(|step| options.steps.contains(step));
    }
    let mut times = Vec::new();
    let mut tally = Tally::default();
    let mut outcome = Ok(());
    for step in &steps {
        println!("\n==> {step}");
        let start = Instant::now();
        outcome = step.run(&workspace, options, &mut tally);
        let elapsed = start.elapsed();
        println!("<== {step}: {} after {}", verdict(outcome.is_ok()), Seconds(elapsed));
        times.push(elapsed);
        if outcome.is_err() {
            outcome = outcome.map_err(|error| repeatable(error, *step, options.all));
            break;
        }
    }
    print!("\n{}", summary(&steps, &times, outcome.is_ok()));
    if !tally.is_empty() {
        println!("{tally}");
    }
    outcome
}

/// The random steps per algorithm with `--all`; without it the tests run 10 000.
const STEPS: (&str, &str) = ("PORTCULLIS_RANDOM_STEPS", "100000");

impl Step {
    fn run(self, workspace: &Workspace, options: &Options, tally: &mut Tally) -> Result<()> {
        let root = &workspace.root;
        let cargo = |line: &str| workspace.cargo(line);
        match self {
            Self::Tools => {
                tools::ensure_installed(tools::SERVERS, root)?;
                let others =
                    [tools::PROXIES, tools::MONITORING, tools::PYTHON, tools::CLIENTS, tools::CLOCKS];
                others.iter().filter(|_| options.all).try_for_each(|set| tools::ensure_installed(set, root))
            }
            Self::Toolchain => toolchain::check(workspace),
            Self::Format => {
                cargo("fmt --all --check").run(root)?;
                cargo("fmt --check --manifest-path").args(no_std::MANIFEST).run(root)?;
                cargo("fmt --check --manifest-path").args(fuzzers::MANIFEST).run(root)?;
                cargo("fmt --check --manifest-path").args(bench::MANIFEST).run(root)?;
                cargo("fmt --check --manifest-path examples/tonic/generate/Cargo.toml").run(root)
            }
            Self::Rules => rules::check(workspace),
            Self::Lint => {
                cargo("clippy --locked --workspace --all-features --all-targets -- -D warnings").run(root)?;
                // `--all-targets` leaves out the targets that a plain `cargo test` does not run, even if they are named.
                cargo(
                    "clippy --locked --workspace --all-features --test clients --test faults --test proxies",
                )
                .args("-- -D warnings")
                .run(root)?;
                // Half of their dependencies have other features, and are checked a second time.
                if !options.all {
                    return Ok(());
                }
                fuzzers::check(workspace)?;
                bench::check(workspace)
            }
            Self::Docs => {
                // The whole workspace even without its programs: the dependencies then have the features of the step `lint`, which
                // has checked them. `--lib` ignores `doc = false`, and the interleavings have the name of the memory store.
                let targets =
                    if options.all { "" } else { "--lib --exclude portcullis-memory-interleavings" };
                cargo("doc --locked --workspace --no-deps --all-features")
                    .args(targets)
                    .env("RUSTDOCFLAGS", "-D warnings")
                    .run(root)
            }
            Self::NoStd => no_std::check(workspace),
            Self::Instructions => instructions::check(workspace),
            Self::Features => release::check_features(workspace),
            Self::Release => release::check(workspace),
            Self::Tests => {
                // With `--lib` or `--bins` cargo would also build the targets with `test = false`.
                let mut test =
                    parallel(cargo("test --locked --workspace --all-features --tests"), options.all);
                if options.all {
                    test = test.env(STEPS.0, STEPS.1);
                }
                test.run_reading(root, |line| tally.read(line))?;
                ensure!(!tally.is_empty(), "no test ran");
                Ok(())
            }
            Self::Proxies => proxies::check(workspace, tally),
            Self::Valkey => valkey::check(workspace, tally),
            // The sources of the interleavings are those of the memory store, whose examples do not run under a scheduler. `--doc`
            // ignores `doctest = false`.
            Self::Doctests => cargo(
                "test --locked --workspace --exclude portcullis-memory-interleavings --all-features --doc",
            )
            .run_reading(root, |line| tally.read(line)),
            Self::Clients => clients::check(workspace, tally),
            Self::Faults => faults::run_short(workspace),
        }
    }

    /// Whether the step needs programs that most changes do not need, or doubles the time of a first run.
    fn is_for_all_only(self) -> bool {
        matches!(
            self,
            Self::Lint
                | Self::Docs
                | Self::Instructions
                | Self::Features
                | Self::Release
                | Self::Proxies
                | Self::Valkey
                | Self::Clients
                | Self::Faults
        )
    }
}

/// Runs three tests at a time per processor, unless a number is set: most tests wait for a server. With all random steps a test
/// computes more, so that three of them would delay the servers that others wait for.
fn parallel(test: Cmd, all: bool) -> Cmd {
    const THREADS: &str = "RUST_TEST_THREADS";
    let each = if all { 2 } else { 3 };
    let threads = thread::available_parallelism().map_or(each, |processors| each * processors.get());
    if env::var_os(THREADS).is_some() { test } else { test.env(THREADS, threads.to_string()) }
}

/// The name on the command line.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Adds the command that runs `step` again, unless the error is of a command and states that itself.
fn repeatable(error: Error, step: Step, all: bool) -> Error {
    if error.is::<Failed>() {
        return error;
    }
    let all = if all { "--all " } else { "" };
    anyhow!("{error:#}\n\nrepeat it from the workspace root with\n\n    cargo xtask test {all}{step}\n")
}

/// The last of the `times` belongs to the failed step, if there is one.
fn summary(steps: &[Step], times: &[Duration], success: bool) -> String {
    let mut table = String::new();
    for (i, step) in steps.iter().enumerate() {
        let line = match times.get(i) {
            Some(&time) => {
                format!("{step:<13} {:>9}  {}", Seconds(time), verdict(success || i + 1 < times.len()))
            }
            None => format!("{step:<13} {:>9}  not run", "-"),
        };
        table += &line;
        table.push('\n');
    }
    let total: Duration = times.iter().sum();
    table + &format!("{:<13} {:>9}  {}\n", "total", Seconds(total), verdict(success))
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "FAILED" }
}

#[derive(Debug)]
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} s", self.0.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_names_a_command_that_repeats_it() {
        let error = repeatable(anyhow!("a rule is broken"), Step::Rules, true).to_string();
        assert!(error.ends_with("\n    cargo xtask test --all rules\n"), "{error}");
        let failed = Cmd::new("false").run(std::path::Path::new(".")).unwrap_err();
        assert!(repeatable(failed.context("why"), Step::Lint, true).is::<Failed>());
    }

    #[test]
    fn the_summary_shows_what_failed_and_what_did_not_run() {
        let steps = [Step::Tools, Step::NoStd, Step::Tests];
        let times = [Duration::from_millis(80), Duration::from_millis(12_340)];
        let expected = "\
tools             0.1 s  ok
no-std           12.3 s  FAILED
tests                 -  not run
total            12.4 s  FAILED
";
        assert_eq!(summary(&steps, &times, false), expected);
        assert!(!summary(&steps[..2], &times, true).contains("FAILED"));
    }
}
