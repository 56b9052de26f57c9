//! Builds the engine without its runtime.

use anyhow::Result;

use crate::workspace::Workspace;

/// Compiles what decides at once, with the lints. Returns one line for each crate of an async runtime that it needs.
pub(super) fn violations(workspace: &Workspace) -> Result<Vec<String>> {
    let engine = |command: &str| {
        workspace.cargo(command).args("--locked --package portcullis-engine --no-default-features")
    };
    engine("clippy").args("-- -D warnings").run(&workspace.root)?;
    let tree = engine("tree").args("--edges normal --prefix none").read(&workspace.root)?;
    let runtimes = tree.lines().filter(|line| line.starts_with("tokio"));
    Ok(runtimes
        .map(|line| format!("portcullis-engine without `runtime` -> {line}: it decides at once"))
        .collect())
}
