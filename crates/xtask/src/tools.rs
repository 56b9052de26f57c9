//! Programs the tests start, and how to get them.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::cmd::Cmd;

#[derive(Debug)]
struct Tool {
    program: &'static str,
    debian: &'static str,
    brew: &'static str,
    why: &'static str,
    /// The argument that makes it say which version it is.
    version: &'static str,
}

/// Finds every tool or installs it; an error says what is missing, why, and how to install it by hand.
pub(crate) fn ensure_installed(root: &Path, all: bool) -> Result<()> {
    let tools: Vec<_> = TOOLS.iter().chain(WITH_ALL.iter().filter(|_| all)).collect();
    let missing: Vec<_> = tools.iter().copied().filter(|tool| !is_installed(tool.program)).collect();
    if !missing.is_empty() {
        install(&missing, root)?;
    }
    for Tool { program, version, .. } in tools {
        let Some(path) = find(program) else { bail!("`{program}` is still missing after its installation") };
        let output = Cmd::new(&path.display().to_string()).args(version).output(root)?;
        ensure!(output.status.success(), "`{program} {version}`: {}", output.status);
        // nginx says it to standard error.
        let said =
            String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout });
        println!("{}", said.lines().next().unwrap_or_default());
    }
    Ok(())
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

const TOOLS: &[Tool] = &[
    Tool {
        program: "redis-server",
        debian: "redis-server",
        brew: "redis",
        why: "the tests of the Redis store start servers of their own",
        version: "--version",
    },
    Tool {
        program: "redis-cli",
        debian: "redis-tools",
        brew: "redis",
        why: "the tests of the Redis store form clusters with it",
        version: "--version",
    },
];

const WITH_ALL: &[Tool] = &[
    Tool {
        program: "nginx",
        debian: "nginx",
        brew: "nginx",
        why: "clients behind it are attacked",
        version: "-v",
    },
    Tool {
        program: "haproxy",
        debian: "haproxy",
        brew: "haproxy",
        why: "clients behind it are attacked",
        version: "-v",
    },
    Tool {
        program: "pip3",
        debian: "python3-pip",
        brew: "python",
        why: "the Valkey that the Redis store is tested on is in a Python package",
        version: "--version",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_packages_are_installed_as_root_and_without_a_question() {
        let missing: Vec<_> = TOOLS.iter().collect();
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
        assert_eq!(brew(&TOOLS.iter().collect::<Vec<_>>()).to_string(), "brew install redis");
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-program-has-this-name"));
    }
}
