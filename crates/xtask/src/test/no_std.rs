//! The core and all it depends on live without std; the package at `MANIFEST` says how that is shown.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::cmd::Cmd;
use crate::workspace::Workspace;

pub(super) const MANIFEST: &str = "crates/portcullis-core/no_std/Cargo.toml";

/// Builds the proof, then builds it with std on purpose, which has to be noticed.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    // The same versions as everywhere else, and nothing to ask the network for.
    let lock = root.join(MANIFEST).with_file_name("Cargo.lock");
    fs::copy(root.join("Cargo.lock"), &lock).context("cannot copy Cargo.lock next to the no_std proof")?;

    let build = Cmd::cargo()
        .args("build --manifest-path")
        .args(MANIFEST)
        .args("--target-dir")
        .path(&workspace.target("no_std"));
    build.run(root)?;

    let spoiled = build.args("--color never --features std-crept-in");
    println!("$ {spoiled}\n  which has to fail");
    let output = spoiled.output(root)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        bail!("the no_std proof proves nothing: it also builds with std");
    }
    if !notices_std(&stderr) {
        bail!("with std the no_std proof fails for another reason than std:\n{stderr}");
    }
    println!("  as it did: std is noticed when it creeps in");
    Ok(())
}

/// Whether rustc complains of two panic handlers, the proof's and the one of std.
fn notices_std(stderr: &str) -> bool {
    let mut lines = stderr.lines();
    lines.any(|line| line.contains("duplicate lang item") && line.contains("`panic_impl`"))
        && lines.any(|line| line.contains("first defined in crate `std`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_panic_handler_of_std_counts_as_noticed() {
        let real = "error[E0152]: found duplicate lang item `panic_impl`\n  --> src/lib.rs:24:1\n   \
                    = note: the lang item is first defined in crate `std` (which `x` depends on)\n";
        assert!(notices_std(real));
        assert!(!notices_std(&real.replace("`std`", "`other`")));
        assert!(!notices_std("error: no matching package named `portcullis-core` found"));
    }
}
