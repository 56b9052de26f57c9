//! Third-party clients, in pinned versions.

use anyhow::Result;

use super::python::Environment;
use super::tally::Tally;
use crate::tools;
use crate::workspace::Workspace;

/// Installs the clients and runs them against limited servers. A missing client is a failure.
pub(super) fn check(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let root = &workspace.root;
    tools::ensure_installed(tools::CLIENTS, root)?;
    let environment = Environment::new(&workspace.target("clients"), root)?;
    environment.install().args("--require-hashes --requirement tests/clients/requirements.txt").run(root)?;
    workspace
        .cargo("test --locked --workspace --all-features --test clients")
        .env("PORTCULLIS_PYTHON", environment.python())
        .run_reading(root, |line| tally.read(line))
}
