//! `cargo xtask faults`: servers that are killed, stopped, filled and cut off, and what callers saw of it.

use anyhow::Result;
use clap::Args;

use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::Workspace;

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Leaves out the soak
    #[arg(long)]
    short: bool,
    /// Only the faults with this in their name; `soak` is the soak
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Repeats the choices of a run
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults at random last, 10 by default
    #[arg(long, value_name = "MINUTES")]
    soak: Option<u64>,
}

/// Runs them all against servers of their own.
pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    tools::ensure_installed(tools::SERVERS, &workspace.root)?;
    check(&workspace, options)
}

/// Each once, for the tests.
pub(crate) fn run_short(workspace: &Workspace) -> Result<()> {
    check(workspace, &Options { short: true, ..Options::default() })
}

fn check(workspace: &Workspace, options: &Options) -> Result<()> {
    tools::ensure_installed(tools::CLOCKS, &workspace.root)?;
    command(options).run(&workspace.root)
}

fn command(options: &Options) -> Cmd {
    // With the features of the other tests, so that nothing is built twice.
    let mut command = Cmd::cargo().args("test --locked --workspace --all-features --test faults --");
    if options.short {
        command = command.args("--short");
    }
    if let Some(only) = &options.only {
        command = command.args(&format!("--only {only}"));
    }
    if let Some(seed) = options.seed {
        command = command.args(&format!("--seed {seed}"));
    }
    if let Some(minutes) = options.soak {
        command = command.args(&format!("--soak {minutes}"));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_passed_on() {
        let only = Some("cluster".to_owned());
        let options = Options { short: true, only, seed: Some(7), soak: Some(3) };
        let line = command(&options).to_string();
        assert!(line.ends_with(" --test faults -- --short --only cluster --seed 7 --soak 3"), "{line}");
        assert!(command(&Options::default()).to_string().ends_with(" --test faults --"));
    }
}
