//! Checks that the fuzzers compile. Their properties are a member of the workspace, and tested there with the corpora.

use anyhow::Result;

use crate::workspace::Workspace;

pub(super) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Checks the targets without the fuzzing runtime, which needs nightly Rust and a C++ compiler.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    workspace.share_lock(MANIFEST)?;
    let clippy = workspace.cargo_beside("clippy --no-default-features", MANIFEST);
    clippy.args("-- -D warnings").run(&workspace.root)
}
