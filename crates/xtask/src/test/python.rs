//! Python packages, in environments of their own.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cmd::Cmd;
use crate::tools;

/// An environment in `place`, below the target directory.
#[derive(Debug)]
pub(super) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Makes the environment unless it is there.
    pub(super) fn new(place: &Path, root: &Path) -> Result<Self> {
        tools::ensure_installed(tools::PYTHON, root)?;
        let place = root.join(place);
        Cmd::new("python3").args("-m venv").path(&place).run(root)?;
        Ok(Self { python: place.join("bin/python") })
    }

    /// The interpreter.
    pub(super) fn python(&self) -> String {
        self.python.display().to_string()
    }

    /// Starts `pip install`: nothing is built from source.
    pub(super) fn install(&self) -> Cmd {
        Cmd::new(&self.python())
            .args("-m pip install --quiet --disable-pip-version-check --only-binary :all:")
    }
}
