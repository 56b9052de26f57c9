//! `cargo xtask faults`: kills, stops, fills and disconnects servers, and checks what callers saw.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::Workspace;

/// The arguments of the suite itself, including `--help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct FaultOptions {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

/// Runs the selected faults, each against its own servers. Their arguments determine how long that takes.
pub(crate) fn run(options: &FaultOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    tools::ensure_installed(tools::SERVERS, &workspace.root)?;
    let suite = command(&workspace, &options.words).limited(Duration::MAX);
    check(&workspace, &suite)
}

/// Runs each fault once, or one of each kind.
pub(crate) fn run_short(workspace: &Workspace, all: bool) -> Result<()> {
    let faults = if all { "--short" } else { "--sample" };
    check(workspace, &command(workspace, &[faults.to_owned()]))
}

fn check(workspace: &Workspace, suite: &Cmd) -> Result<()> {
    tools::ensure_installed(tools::CLOCKS, &workspace.root)?;
    suite.run(&workspace.root)
}

fn command(workspace: &Workspace, words: &[String]) -> Cmd {
    // With the features of the other tests, so that nothing is built twice.
    let suite = workspace.cargo("test --locked --workspace --all-features --test faults --");
    words.iter().fold(suite, |command, word| command.word(word))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: FaultOptions,
    }

    #[test]
    fn arguments_are_passed_to_the_suite() {
        let workspace = Workspace::load().unwrap();
        let line = |words: &[&str]| {
            let cli = Cli::try_parse_from([&["faults"], words].concat()).unwrap();
            command(&workspace, &cli.options.words).to_string()
        };
        let passed = line(&["--only", "memory full", "--seed", "7"]);
        assert!(passed.ends_with(" --test faults -- --only 'memory full' --seed 7"), "{passed}");
        assert!(line(&["--help"]).ends_with(" -- --help"));
        assert!(line(&[]).ends_with(" --test faults --"));
    }
}
