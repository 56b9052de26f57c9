//! Checks that the fuzzers compile. Their properties are a member of the workspace, and tested there with the corpora.

use std::fs;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

pub(super) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Checks the targets without the fuzzing runtime, which needs nightly Rust and a C++ compiler.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    // The versions of the workspace; cargo adds what only the fuzzers need.
    let lock = root.join(MANIFEST).with_file_name("Cargo.lock");
    fs::copy(root.join("Cargo.lock"), &lock).context("cannot copy Cargo.lock next to the fuzzers")?;
    workspace
        .cargo("clippy --no-default-features --manifest-path")
        .args(MANIFEST)
        .args("--target-dir")
        // That of the workspace, for the dependencies that both have with the same features.
        .path(&workspace.shared_target())
        .args("-- -D warnings")
        .run(root)
}
