//! The test programs of the workspace, as cargo has built them.
//!
//! They run one by one instead of under one `cargo test`, so that it is known which program a failed test is in, and that a
//! failure hides nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::report::Report;
use super::run::Run;
use crate::cmd::Cmd;
use crate::workspace::Workspace;

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    /// The name of the crate, or of the file in `tests`.
    pub(super) target: String,
    kind: Kind,
    /// The folder of the package, in which cargo runs its tests.
    folder: PathBuf,
    pub(super) executable: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Lib,
    Bin,
    Test,
}

/// Builds the test programs that `targets` selects, such as `--tests`, with all features, and returns them in the order in which
/// cargo runs them.
pub(super) fn built(workspace: &Workspace, targets: &str) -> Result<Vec<Program>> {
    let build = workspace
        .cargo("test --locked --workspace --all-features --no-run --message-format json-render-diagnostics")
        .args(targets);
    let mut programs = Vec::new();
    let mut unreadable = None;
    build.read_lines(&workspace.root, |line| match read(line, workspace) {
        Ok(program) => programs.extend(program),
        Err(error) => unreadable = Some(error),
    })?;
    programs.sort_by(|a: &Program, b| a.order().cmp(&b.order()));
    unreadable.map_or(Ok(programs), Err)
}

/// Runs the programs of one target that a plain `cargo test` leaves out, as `prepare` completes them.
pub(super) fn run(run: &mut Run<'_>, target: &str, prepare: impl Fn(Cmd) -> Cmd) -> Result<()> {
    for program in built(run.workspace, &format!("--test {target}"))? {
        let repeat = |test: &str| prepare(program.by_hand()).args("-- --exact").word(test).to_string();
        run.report.run(&prepare(program.command()), program.folder(), repeat)?;
    }
    Ok(())
}

/// Runs programs, four at the same time: most tests wait for servers. Those that take longest begin first, so that none is left over
/// at the end: the ones of [`LONGEST`], then by their size.
pub(super) fn run_side_by_side(
    programs: &[Program],
    command: impl Fn(&Program) -> Cmd + Sync,
    report: &mut Report,
) -> Result<()> {
    let mut queue: Vec<_> = programs.iter().collect();
    queue.sort_by_key(|program| {
        let is_long = LONGEST.contains(&program.package.as_str());
        (is_long, fs::metadata(&program.executable).map_or(0, |file| file.len()))
    });
    let (queue, report) = (Mutex::new(queue), Mutex::new(report));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || -> Result<()> {
        while let Some(program) = next() {
            let mut own = Report::default();
            let repeat = |test: &str| program.by_hand().args("-- --exact").word(test).to_string();
            own.run_quietly(&command(program), program.folder(), repeat)?;
            report.lock().unwrap_or_else(PoisonError::into_inner).add(own);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}

const SIDE_BY_SIDE: usize = 4;
/// The packages whose tests wait for servers for a minute.
const LONGEST: [&str; 2] = ["portcullis-redis", "portcullis-tests"];

impl Program {
    /// A call of the program, in the environment that tests have under `cargo test`.
    pub(super) fn command(&self) -> Cmd {
        Cmd::new(&self.executable.display().to_string())
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_MANIFEST_DIR", self.folder.display().to_string())
    }

    /// A name for files about the program as it was built: another one after it was built anew.
    pub(super) fn id(&self) -> Result<String> {
        let built = fs::metadata(&self.executable)?.modified()?.duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(format!("{}-{}-{}", self.package, self.target, built.as_millis()))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command with which a developer runs this program, or with `-- --exact NAME` one of its tests.
    pub(super) fn by_hand(&self) -> Cmd {
        let command = Cmd::cargo().args("test --all-features --package").word(&self.package);
        match self.kind {
            Kind::Lib => command.args("--lib"),
            Kind::Bin => command.args("--bin").word(&self.target),
            Kind::Test => command.args("--test").word(&self.target),
        }
    }

    fn order(&self) -> (&str, Kind, &str) {
        (&self.package, self.kind, &self.target)
    }
}

/// Reads a message of cargo; `None` if it is not about a test program.
fn read(line: &str, workspace: &Workspace) -> Result<Option<Program>> {
    #[derive(Deserialize)]
    struct Message {
        manifest_path: Option<PathBuf>,
        target: Option<Target>,
        executable: Option<PathBuf>,
        profile: Option<Profile>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let message: Message = serde_json::from_str(line).context("cannot read a message of cargo")?;
    let Message {
        manifest_path: Some(manifest),
        target: Some(target),
        executable: Some(executable),
        profile: Some(Profile { test: true }),
    } = message
    else {
        return Ok(None);
    };
    let package = workspace.packages.iter().find(|package| package.manifest_path == manifest);
    let package = package.with_context(|| format!("{} is of no member", manifest.display()))?;
    let kind = match target.kind.first().map(String::as_str) {
        Some("bin") => Kind::Bin,
        Some("test") => Kind::Test,
        _ => Kind::Lib,
    };
    let folder = manifest.parent().context("a manifest is in a folder")?.to_path_buf();
    Ok(Some(Program { package: package.name.clone(), target: target.name, kind, folder, executable }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn workspace() -> Workspace {
        let package = Package {
            name: "a".to_owned(),
            manifest_path: PathBuf::from("/a/Cargo.toml"),
            ..Package::default()
        };
        Workspace { root: PathBuf::from("/"), target: PathBuf::from("/t"), packages: vec![package] }
    }

    #[test]
    fn messages_of_cargo_name_programs() {
        let artifact = r#"{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/t/it-1"}"#;
        let program = read(artifact, &workspace()).unwrap().unwrap();
        assert_eq!(program.by_hand().to_string(), "cargo test --all-features --package a --test it");
        assert_eq!(program.folder(), Path::new("/a"));
        let library = artifact.replace(r#""/t/it-1""#, "null");
        assert_eq!(read(&library, &workspace()).unwrap(), None);
        let binary = artifact.replace(r#""test":true"#, r#""test":false"#);
        assert_eq!(read(&binary, &workspace()).unwrap(), None);
        assert_eq!(read(r#"{"reason":"build-finished","success":true}"#, &workspace()).unwrap(), None);
        assert!(read("no JSON", &workspace()).is_err());
        let stranger = artifact.replace("/a/Cargo", "/b/Cargo");
        assert!(read(&stranger, &workspace()).unwrap_err().to_string().contains("/b/Cargo.toml"));
    }
}
