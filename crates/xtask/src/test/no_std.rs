//! Checks that the core and its dependencies compile without std. The package at `MANIFEST` is the test program.

use anyhow::{Result, bail};

use crate::workspace::Workspace;

pub(super) const MANIFEST: &str = "crates/portcullis-core/no_std/Cargo.toml";

/// Checks the test program, then checks it with std on purpose, which has to fail.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    workspace.share_lock(MANIFEST)?;
    let check = workspace.cargo_beside("check", MANIFEST);
    check.run(root)?;

    let with_std = check.args("--color never --features std-crept-in");
    println!("$ {with_std}\n  (has to fail)");
    let output = with_std.output(root)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        bail!("the no_std check detects nothing: the program also compiles with std");
    }
    if !is_caused_by_std(&stderr) {
        bail!("with std the no_std program fails for another reason than std:\n{stderr}");
    }
    println!("  it failed: the check detects std");
    Ok(())
}

/// Whether rustc reports two panic handlers, that of the program and that of std.
fn is_caused_by_std(stderr: &str) -> bool {
    let mut lines = stderr.lines();
    lines.any(|line| line.contains("duplicate lang item") && line.contains("`panic_impl`"))
        && lines.any(|line| line.contains("first defined in crate `std`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_panic_handler_of_std_counts_as_the_cause() {
        let real = "error[E0152]: found duplicate lang item `panic_impl`\n  --> src/lib.rs:24:1\n   \
                    = note: the lang item is first defined in crate `std` (which `x` depends on)\n";
        assert!(is_caused_by_std(real));
        assert!(!is_caused_by_std(&real.replace("`std`", "`other`")));
        assert!(!is_caused_by_std("error: no matching package named `portcullis-core` found"));
    }
}
