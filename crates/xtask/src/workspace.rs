//! This workspace according to `cargo metadata`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::cmd::Cmd;

#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) repository: Option<String>,
    pub(crate) homepage: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) rust_version: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The registries that it may be published to: empty for `publish = false`, unrestricted when absent.
    pub(crate) publish: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    /// The package's own name, even if a manifest renames it.
    pub(crate) name: String,
    /// `None` for a normal dependency, else `build` or `dev`.
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) optional: bool,
}

impl Workspace {
    /// Requests the members only, which uses neither the network nor the lock file.
    pub(crate) fn load() -> Result<Self> {
        let json = Cmd::cargo().args("metadata --format-version 1 --no-deps").read(Path::new("."))?;
        serde_json::from_str(&json).context("cannot read what `cargo metadata` prints")
    }

    /// A call of cargo with the words of `line`, as [`Cmd::args`] takes them, which builds in the way of earlier builds by hand.
    ///
    /// On a new machine nothing is built incrementally: a first build is a fifth faster with fewer codegen units and no cache
    /// to write. Changing the way builds the whole workspace again, so incremental builds by hand stay incremental here.
    pub(crate) fn cargo(&self, line: &str) -> Cmd {
        let cargo = Cmd::cargo().args(line);
        if env::var_os(INCREMENTAL).is_some() || is_incremental(&self.root.join(&self.target)) {
            cargo
        } else {
            cargo.env(INCREMENTAL, "0")
        }
    }

    /// Like [`cargo`](Self::cargo), for the package with this manifest, which is no member. It builds into the target directory of the
    /// workspace, for the dependencies that both have with the same features.
    pub(crate) fn cargo_beside(&self, line: &str, manifest: &str) -> Cmd {
        let cargo = self.cargo(line).args("--manifest-path").args(manifest);
        cargo.args("--target-dir").path(&self.shared_target())
    }

    /// Gives the package with this manifest, which is no member, the versions of the workspace. Cargo adds what only the package needs.
    pub(crate) fn share_lock(&self, manifest: &str) -> Result<()> {
        let lock = self.root.join(manifest).with_file_name("Cargo.lock");
        fs::copy(self.root.join("Cargo.lock"), lock)
            .with_context(|| format!("cannot copy Cargo.lock next to {manifest}"))?;
        Ok(())
    }

    /// A separate folder below the target directory, relative to the root if possible.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.shared_target().join(name)
    }

    /// The target directory itself, relative to the root if possible.
    pub(crate) fn shared_target(&self) -> PathBuf {
        self.target.strip_prefix(&self.root).unwrap_or(&self.target).to_path_buf()
    }
}

const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// Whether a crate other than this program, which cargo builds before the program can decide, was ever built incrementally below
/// the target directory.
fn is_incremental(target: &Path) -> bool {
    let Ok(crates) = fs::read_dir(target.join("debug/incremental")) else { return false };
    crates.flatten().any(|folder| {
        let folder = folder.file_name();
        // `portcullis_core-1x6hv40yxkcmq`: the name of the crate and a hash.
        folder.to_string_lossy().rsplit_once('-').is_some_and(|(name, _)| name != env!("CARGO_CRATE_NAME"))
    })
}

impl Package {
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incremental_builds_are_those_of_other_crates() {
        let target = env::temp_dir().join(format!("portcullis-incremental-{}", std::process::id()));
        assert!(!is_incremental(&target), "there is no folder");
        let crates = target.join("debug/incremental");
        fs::create_dir_all(crates.join("xtask-1x6hv40yxkcmq")).unwrap();
        assert!(!is_incremental(&target), "this program alone");
        fs::create_dir_all(crates.join("portcullis_core-3hk2x0qjz8v1d")).unwrap();
        assert!(is_incremental(&target), "a crate of the workspace");
        fs::remove_dir_all(target).unwrap();
    }
}
