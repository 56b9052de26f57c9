//! The servers that programs are measured beside, as arguments that name them.

use std::path::PathBuf;

use anyhow::Result;

use super::{BenchOptions, Tables};
use crate::cmd::Cmd;
use crate::python::CADDY;
use crate::tools;
use crate::workspace::Workspace;

/// Installs the servers, and returns the arguments of the program. Of one that is missing, the program says that it was not measured.
pub(super) fn arguments(
    workspace: &Workspace,
    tables: Tables,
    options: &BenchOptions,
) -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    let mut add = |flag, path: Result<PathBuf>| match path {
        Ok(path) => found.push((flag, path)),
        Err(error) => println!("{error:#}"),
    };
    match tables {
        Tables::Proxy => {
            if let Err(error) = tools::ensure_installed(tools::PROXIES, &workspace.root) {
                println!("{error:#}");
            }
            add("--caddy", CADDY.proxy(workspace).map(PathBuf::from));
        }
        Tables::ServeEnvoy => {
            add("--throttlecrab", throttlecrab(workspace));
            if let Some(path) = &options.limitador {
                add("--limitador", Ok(path.clone()));
            }
        }
        _ => {}
    }
    found
}

/// Builds throttlecrab's server in this version, below the target directory, unless it is there.
fn throttlecrab(workspace: &Workspace) -> Result<PathBuf> {
    let place = workspace.root.join(workspace.target("tools")).join(format!("throttlecrab-{THROTTLECRAB}"));
    let program = place.join("bin/throttlecrab-server");
    if !tools::is_executable(&program) {
        // Without it the server is built without gRPC.
        tools::ensure_installed(tools::PROTOBUF, &workspace.root)?;
        let install =
            Cmd::cargo().args("install --locked --quiet throttlecrab-server --version").args(THROTTLECRAB);
        install.args("--root").path(&place).run(&workspace.root)?;
    }
    Ok(program)
}

const THROTTLECRAB: &str = "0.4.40";
