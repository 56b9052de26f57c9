//! The compiler: its version, its components, and the oldest version we promise.

use std::fmt;
use std::fs;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::{Package, Workspace};

/// Checks the compiler and its components, and that clippy lints for the promised `rust-version`. A real toolchain of that
/// version runs in the workflow of the repository.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let promised = promised(&workspace.packages)?;
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let running = running(&Cmd::new(&rustc).args("--version").read(&workspace.root)?)?;
    ensure!(running >= promised, "rustc {running} is too old: `rust-version` asks for {promised}");
    let clippy = fs::read_to_string(workspace.root.join("clippy.toml")).context("cannot read clippy.toml")?;
    let linted = msrv(&clippy)?;
    ensure!(
        linted == promised,
        "clippy.toml states msrv {linted}, `rust-version` {promised}: they must agree"
    );
    ensure_components(workspace)?;
    println!("rustc {running}; the oldest we promise is {promised}: clippy rejects what it lacks");
    Ok(())
}

/// Reads the line `msrv = "1.88"` of clippy.toml.
fn msrv(clippy: &str) -> Result<Version> {
    let mut values = clippy.lines().filter_map(|line| line.strip_prefix("msrv = "));
    values.next().context("clippy.toml states no msrv")?.trim_matches('"').parse()
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
fn promised(packages: &[Package]) -> Result<Version> {
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
    let (name, version) = promised.context("no published package, so no `rust-version` to check")?;
    version.parse().with_context(|| format!("in the manifest of {name}"))
}

/// Reads `rustc 1.95.0 (59807616e 2026-04-14)`.
fn running(line: &str) -> Result<Version> {
    let word = line.strip_prefix("rustc ").and_then(|rest| rest.split_whitespace().next());
    word.with_context(|| format!("`rustc --version` printed {line:?}"))?.parse()
}

/// Ordered by number only: a nightly counts as the release it becomes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u16; 3],
    pre: Option<String>,
}

impl FromStr for Version {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (release, pre) = match text.split_once('-') {
            Some((release, pre)) => (release, Some(pre.to_owned())),
            None => (text, None),
        };
        let mut numbers = [0; 3];
        let mut parts = release.split('.');
        for (i, number) in numbers.iter_mut().enumerate() {
            match parts.next() {
                Some(part) => *number = part.parse().with_context(|| format!("not a version: {text:?}"))?,
                None => ensure!(i > 0, "not a version: {text:?}"),
            }
        }
        ensure!(parts.next().is_none(), "not a version: {text:?}");
        Ok(Self { numbers, pre })
    }
}

/// All three numbers, as in the names of toolchains.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        self.pre.iter().try_for_each(|pre| write!(f, "-{pre}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rustc_and_manifests_are_parsed() {
        let read = |text: &str| text.parse::<Version>().map(|version| version.to_string()).ok();
        assert_eq!(read("1.95").as_deref(), Some("1.95.0"));
        assert_eq!(read("1.95.1").as_deref(), Some("1.95.1"));
        assert_eq!(read("1.97.0-nightly").as_deref(), Some("1.97.0-nightly"));
        for nonsense in ["", "1.", "1.x", "1.2.3.4", "-nightly", "1.95 "] {
            assert_eq!(read(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(running("rustc 1.95.0 (59807616e 2026-04-14)\n").unwrap().to_string(), "1.95.0");
        assert!(running("cargo 1.95.0").is_err());
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        let promised = version("1.95");
        assert!(version("1.100.0") > promised && version("1.94.9") < promised);
    }

    #[test]
    fn the_version_for_clippy_is_a_line_of_its_file() {
        assert_eq!(msrv("other = true\nmsrv = \"1.88\"\n").unwrap().to_string(), "1.88.0");
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
        assert_eq!(promised(&same).unwrap().to_string(), "1.95.0");
        let other = [package("a", Some("1.95")), package("b", Some("1.90"))];
        assert_eq!(promised(&other).unwrap_err().to_string(), "a states rust-version 1.95, b 1.90");
        assert!(promised(&[package("a", None)]).unwrap_err().to_string().starts_with("a states no version"));
    }
}
