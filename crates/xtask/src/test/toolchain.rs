//! The compiler: its version, its components, and the oldest version we promise.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::{Package, Workspace};

/// Checks that clippy lints for the promised `rust-version`, and that the compiler has its components. Cargo builds this program with no
/// older compiler. A real toolchain of that version runs in the workflow of the repository: `cargo hack --rust-version` downloads one.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let promised = promised(&workspace.packages)?;
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let running = Cmd::new(&rustc).args("--version").read(&workspace.root)?;
    let clippy = fs::read_to_string(workspace.root.join("clippy.toml")).context("cannot read clippy.toml")?;
    let linted = msrv(&clippy)?;
    ensure!(
        linted == promised,
        "clippy.toml states msrv {linted}, `rust-version` {promised}: they must agree"
    );
    ensure_components(workspace)?;
    println!("{}; the oldest we promise is {promised}: clippy rejects what it lacks", running.trim());
    Ok(())
}

/// Reads the line `msrv = "1.88"` of clippy.toml.
fn msrv(clippy: &str) -> Result<&str> {
    let mut values = clippy.lines().filter_map(|line| line.strip_prefix("msrv = "));
    Ok(values.next().context("clippy.toml states no msrv")?.trim_matches('"'))
}

/// A minimal toolchain has neither; rustup knows how to add them.
fn ensure_components(workspace: &Workspace) -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let present = Cmd::cargo().args(subcommand).args("--version").output(&workspace.root)?;
        if present.status.success() {
            continue;
        }
        ensure!(tools::is_installed("rustup"), "`cargo {subcommand}` is missing: please install {component}");
        Cmd::new("rustup").args("component add").args(component).run(&workspace.root)?;
    }
    Ok(())
}

/// The one `rust-version` that all published packages state.
fn promised(packages: &[Package]) -> Result<&str> {
    let mut promised: Option<(&str, &str)> = None;
    for package in packages.iter().filter(|package| package.is_published()) {
        let Some(version) = package.rust_version.as_deref() else {
            bail!("{} states no version: it needs `rust-version.workspace = true`", package.name);
        };
        match promised {
            Some((name, other)) if other != version => {
                bail!("{name} states rust-version {other}, {} {version}", package.name)
            }
            _ => promised = Some((&package.name, version)),
        }
    }
    Ok(promised.context("no published package, so no `rust-version` to check")?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_for_clippy_is_a_line_of_its_file() {
        assert_eq!(msrv("other = true\nmsrv = \"1.88\"\n").unwrap(), "1.88");
        assert!(msrv("other = true\n").is_err());
    }

    #[test]
    fn published_packages_promise_one_version() {
        let package = |name: &str, version: Option<&str>| Package {
            name: name.to_owned(),
            rust_version: version.map(str::to_owned),
            ..Package::default()
        };
        let same = [package("a", Some("1.95")), package("b", Some("1.95"))];
        assert_eq!(promised(&same).unwrap(), "1.95");
        let other = [package("a", Some("1.95")), package("b", Some("1.90"))];
        assert_eq!(promised(&other).unwrap_err().to_string(), "a states rust-version 1.95, b 1.90");
        assert!(promised(&[package("a", None)]).unwrap_err().to_string().starts_with("a states no version"));
    }
}
