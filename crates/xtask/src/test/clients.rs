//! Clients that are not ours, fetched in the versions that are written down.

use anyhow::Result;

use super::tally::Tally;
use crate::cmd::Cmd;
use crate::tools;
use crate::workspace::Workspace;

/// Installs the clients and runs them against limited servers. One that is missing is a failure.
pub(super) fn check(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let root = &workspace.root;
    tools::ensure_installed(tools::CLIENTS, root)?;
    let venv = root.join(workspace.target("clients"));
    let python = venv.join("bin/python");
    Cmd::new("python3").args("-m venv").path(&venv).run(root)?;
    Cmd::new(&python.display().to_string())
        .args("-m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all:")
        .args("--requirement tests/clients/requirements.txt")
        .run(root)?;
    Cmd::cargo()
        .args("test --locked --package portcullis-tests --test clients")
        .env("PORTCULLIS_PYTHON", python.display().to_string())
        .run_reading(root, |line| tally.read(line))
}
