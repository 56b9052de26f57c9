//! Python packages, in separate environments.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cmd::Cmd;
use crate::tools;

/// A virtual environment below the target directory.
#[derive(Debug)]
pub(super) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Creates the environment in `folder` unless it exists.
    pub(super) fn new(folder: &Path, root: &Path) -> Result<Self> {
        tools::ensure_installed(tools::PYTHON, root)?;
        let folder = root.join(folder);
        Cmd::new("python3").args("-m venv").path(&folder).run(root)?;
        Ok(Self { python: folder.join("bin/python") })
    }

    /// The interpreter.
    pub(super) fn python(&self) -> String {
        self.python.display().to_string()
    }

    /// Starts a `pip install` that builds nothing from source.
    pub(super) fn install(&self) -> Cmd {
        Cmd::new(&self.python())
            .args("-m pip install --quiet --disable-pip-version-check --only-binary :all:")
    }
}
