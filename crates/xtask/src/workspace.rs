//! This workspace according to `cargo metadata`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::cmd::Cmd;

#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
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
}

impl Workspace {
    /// Requests the members only, which uses neither the network nor the lock file.
    pub(crate) fn load() -> Result<Self> {
        let json = Cmd::cargo().args("metadata --format-version 1 --no-deps").read(Path::new("."))?;
        serde_json::from_str(&json).context("cannot read what `cargo metadata` prints")
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

impl Workspace {
    /// Returns a member by its name.
    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        let found = self.packages.iter().find(|package| package.name == name);
        found.with_context(|| format!("the workspace has no package {name}"))
    }
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
