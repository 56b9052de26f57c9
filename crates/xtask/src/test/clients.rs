//! Third-party clients, in pinned versions.

use anyhow::Result;

use super::programs;
use super::run::Run;
use crate::python::Environment;
use crate::tools;

/// Installs the clients and runs them against limited servers. A missing client is a failure.
pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let workspace = run.workspace;
    let root = &workspace.root;
    tools::ensure_installed(tools::CLIENTS, root)?;
    let environment = Environment::new(&workspace.target("clients"), root)?;
    environment.install().args("--require-hashes --requirement tests/clients/requirements.txt").run(root)?;
    programs::run(run, "clients", |tests| tests.env("PORTCULLIS_PYTHON", environment.python()))
}
