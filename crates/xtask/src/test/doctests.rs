//! The examples in the documentation.

use std::path::Path;

use anyhow::Result;

use super::run::Run;
use crate::cmd::Cmd;
use crate::workspace::Workspace;

pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let workspace = run.workspace;
    // The sources of the interleavings are those of the memory store, whose examples do not run under a scheduler. `--doc` ignores
    // `doctest = false`.
    let tests = workspace.cargo(
        "test --locked --workspace --exclude portcullis-memory-interleavings --all-features --doc --no-fail-fast",
    );
    run.report.run(&tests, &workspace.root, |test| repeat(workspace, test))
}

/// The command that runs an example again. Its name begins with the path of its file.
fn repeat(workspace: &Workspace, test: &str) -> String {
    let file = workspace.root.join(test.split(" - ").next().unwrap_or_default());
    let of = |folder: &Path| file.starts_with(folder);
    let package = workspace.packages.iter().find(|package| package.manifest_path.parent().is_some_and(of));
    let command = Cmd::cargo().args("test --all-features --doc");
    let command = match package {
        Some(package) => command.args("--package").word(&package.name),
        None => command.args("--workspace"),
    };
    command.args("--").word(test).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_example_names_its_package() {
        let workspace = Workspace::load().unwrap();
        assert_eq!(
            repeat(&workspace, "crates/portcullis-core/src/quota.rs - quota::Quota (line 7)"),
            "cargo test --all-features --doc --package portcullis-core -- \
             'crates/portcullis-core/src/quota.rs - quota::Quota (line 7)'"
        );
        assert!(
            repeat(&workspace, "nowhere.rs - a (line 1)")
                .starts_with("cargo test --all-features --doc --workspace")
        );
    }
}
