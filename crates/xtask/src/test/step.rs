//! The steps of `cargo xtask test`.

use std::fmt;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::run::{Run, Size, sized};
use super::{
    book, clients, compile_errors, docs, doctests, no_std, programs, proxies, release, rules, toolchain,
    valkey,
};
use crate::bench;
use crate::faults;
use crate::instructions;
use crate::tools;

/// The steps, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Step {
    /// the programs that the tests start; missing ones are installed
    Tools,
    /// the compiler, its components, and the oldest supported version
    Toolchain,
    /// cargo fmt
    Format,
    /// file sizes, dead links, dependencies that point the wrong way or in a circle
    Rules,
    /// cargo clippy, warnings are errors; with --gate, --all, or by name
    Lint,
    /// cargo doc, warnings are errors, and the pages of the facade name no other crate; with --gate, --all, or by name
    Docs,
    /// the book builds, and its links lead somewhere; with --gate, --all, or by name
    Book,
    /// the core compiles without std, and the check fails with std
    NoStd,
    /// errors of the compiler name the cure of usual mistakes
    CompileErrors,
    /// unit and integration tests
    Tests,
    /// the examples in the documentation
    Doctests,
    /// instructions of decisions beside the recorded ones; with --gate, --all, or by name
    Instructions,
    /// the published crates build with each of their features alone; with --gate, --all, or by name
    Features,
    /// licences and sources of dependencies, packages, and the last release's API; with --gate, --all, or by name
    Release,
    /// limits behind a real nginx, haproxy, Envoy and Caddy; with --gate, --all, or by name
    Proxies,
    /// the Redis store and the scenarios on Valkey; with --gate, --all, or by name
    Valkey,
    /// curl, urllib3, grpcio and a browser against limited servers; with --gate, --all, or by name
    Clients,
    /// thirty faults of servers and networks under load; with --gate, --all, or by name
    Faults,
}

impl Step {
    pub(super) fn run(self, run: &mut Run<'_>) -> Result<()> {
        let Run { workspace, size, .. } = *run;
        let root = &workspace.root;
        let cargo = |line: &str| workspace.cargo(line);
        match self {
            Self::Tools => {
                tools::ensure_installed(tools::SERVERS, root)?;
                tools::ensure_installed(tools::BOOK, root)?;
                let others =
                    [tools::PROXIES, tools::MONITORING, tools::PYTHON, tools::CLIENTS, tools::CLOCKS];
                let needed = others.iter().filter(|_| size > Size::Quick);
                needed.into_iter().try_for_each(|set| tools::ensure_installed(set, root))
            }
            Self::Toolchain => toolchain::check(workspace),
            Self::Format => {
                cargo("fmt --all --check").run(root)?;
                let others = [no_std::MANIFEST, compile_errors::MANIFEST, FUZZERS, bench::MANIFEST];
                [&others[..], &GENERATORS]
                    .concat()
                    .iter()
                    .try_for_each(|manifest| cargo("fmt --check --manifest-path").args(manifest).run(root))
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
                if size < Size::Full {
                    return Ok(());
                }
                workspace.share_lock(FUZZERS)?;
                // Without the fuzzing runtime, which needs nightly Rust and a C++ compiler.
                let fuzzers = workspace.cargo_beside("clippy --no-default-features", FUZZERS);
                let measurements = workspace.cargo_beside("clippy --all-targets", bench::MANIFEST);
                [fuzzers, measurements]
                    .map(|clippy| clippy.args("-- -D warnings"))
                    .iter()
                    .try_for_each(|clippy| clippy.run(root))
            }
            Self::Docs => docs::check(workspace, size),
            Self::Book => book::run(workspace),
            Self::NoStd => no_std::check(workspace),
            Self::CompileErrors => compile_errors::check(workspace),
            Self::Instructions => instructions::check(workspace),
            Self::Features => release::check_features(workspace, size),
            Self::Release => release::check(workspace),
            Self::Tests => {
                // With `--lib` or `--bins` cargo would also build the targets with `test = false`.
                let programs = programs::built(workspace, "--tests")?;
                programs::run_side_by_side(&programs, |program| sized(program.command(), size), run.report)?;
                ensure!(!run.report.is_empty(), "no test ran");
                Ok(())
            }
            Self::Proxies => proxies::check(run),
            Self::Valkey => valkey::check(run),
            Self::Doctests => doctests::check(run),
            Self::Clients => clients::check(run),
            Self::Faults => faults::run_short(workspace, size == Size::Full),
        }
    }

    /// Whether a run of this size has the step, unless steps are named. The others need programs that most changes do not need, or
    /// double the time of a first run.
    pub(super) fn is_part_of(self, size: Size) -> bool {
        let is_quick = matches!(
            self,
            Self::Tools
                | Self::Toolchain
                | Self::Format
                | Self::Rules
                | Self::NoStd
                | Self::CompileErrors
                | Self::Tests
                | Self::Doctests
        );
        is_quick || size > Size::Quick
    }

    /// Whether no later step can run if this one fails.
    pub(super) fn is_needed_by_others(self) -> bool {
        matches!(self, Self::Tools | Self::Toolchain)
    }
}

/// The targets of the fuzzers. Their properties are a member of the workspace, and tested there with the corpora.
const FUZZERS: &str = "fuzz/Cargo.toml";
/// What writes code of .proto files.
const GENERATORS: [&str; 2] =
    ["crates/portcullis-rls/generate/Cargo.toml", "examples/tonic/generate/Cargo.toml"];

/// The name on the command line.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}
