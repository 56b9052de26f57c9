//! Third-party clients, in pinned versions.

use std::fs;

use anyhow::Result;

use super::programs;
use super::run::Run;
use crate::cmd::Cmd;
use crate::python::Environment;
use crate::tools;

/// Installs the clients and runs them against limited servers. A missing client is a failure.
pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let workspace = run.workspace;
    let root = &workspace.root;
    tools::ensure_installed(tools::CLIENTS, root)?;
    let environment = Environment::new(&workspace.target("clients"), root)?;
    environment.install().args("--require-hashes --requirement tests/clients/requirements.txt").run(root)?;
    // In a program of its own, because the steps are below what builds.
    let built = root.join(workspace.target("wasm")).join("playground.wasm.gz");
    if built.exists() {
        fs::remove_file(&built)?;
    }
    Cmd::cargo().args("xtask wasm --anew").run(root)?;
    programs::run(run, "clients", |tests| {
        let tests = tests.env("PORTCULLIS_PYTHON", environment.python());
        if built.exists() { tests.env("PORTCULLIS_PLAYGROUND", built.display().to_string()) } else { tests }
    })
}
