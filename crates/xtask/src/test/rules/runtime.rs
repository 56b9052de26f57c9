//! Builds the engine without its runtime, and looks for one below the memory store.

use anyhow::Result;

use crate::workspace::Workspace;

/// Compiles what decides at once, with the lints. Returns one line for each crate of an async runtime that it needs.
pub(super) fn violations(workspace: &Workspace) -> Result<Vec<String>> {
    let engine = |command: &str| {
        workspace.cargo(command).args("--locked --package portcullis-engine --no-default-features")
    };
    engine("clippy").args("-- -D warnings").run(&workspace.root)?;
    let memory = workspace.cargo("tree").args("--locked --package portcullis-memory");
    let mut violations = Vec::new();
    for (name, tree) in
        [("portcullis-engine without `runtime`", engine("tree")), ("portcullis-memory", memory)]
    {
        let tree = tree.args("--edges normal --prefix none").read(&workspace.root)?;
        let runtimes = tree.lines().filter(|line| line.starts_with("tokio"));
        violations.extend(runtimes.map(|line| format!("{name} -> {line}: it decides at once")));
    }
    Ok(violations)
}
