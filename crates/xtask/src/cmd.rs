//! Child processes with a limit of time, whose failures state the command to repeat.

mod limit;

use std::fmt;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use self::limit::SlowTests;

/// A command line that can be printed, pasted and run again.
#[derive(Debug, Clone)]
pub(crate) struct Cmd {
    words: Vec<String>,
    env: Vec<(&'static str, String)>,
    limit: Duration,
}

impl Cmd {
    pub(crate) fn new(program: &str) -> Self {
        Self { words: vec![program.to_owned()], env: Vec::new(), limit: LIMIT }
    }

    /// The cargo that runs this program, so that `cargo +nightly xtask` stays on nightly.
    pub(crate) fn cargo() -> Self {
        Self::new("cargo")
    }

    /// Appends the words of `line`, which are separated by blanks.
    pub(crate) fn args(mut self, line: &str) -> Self {
        self.words.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    /// Appends one word that may contain blanks.
    pub(crate) fn word(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// Appends one path, as one word.
    pub(crate) fn path(self, path: &Path) -> Self {
        self.word(&path.display().to_string())
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Ends the command after this time instead of half an hour.
    pub(crate) fn limited(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Shows the command, runs it in `dir` with its output visible, and fails unless it succeeds within half an hour.
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        println!("$ {self}");
        let mut child = self.spawn(&mut self.command(dir))?;
        let status = self.within_limit(child.id(), || child.wait())?;
        self.ensure_success(status)
    }

    /// Like [`run`](Self::run), and passes each line of standard output to `read` after showing it. If the limit is exceeded, the
    /// lines about tests that still run are shown last.
    pub(crate) fn run_reading(&self, dir: &Path, mut read: impl FnMut(&str)) -> Result<()> {
        let mut slow = SlowTests::default();
        println!("$ {self}");
        let status = self.lines(
            dir,
            |_| {},
            |line| {
                print!("{line}");
                slow.read(line);
                read(line);
            },
        );
        if status.is_err() {
            for line in slow.lines() {
                print!("{line}");
            }
        }
        self.ensure_success(status?)
    }

    /// Like [`run`](Self::run), and passes each line of standard output to `read` instead of showing it.
    pub(crate) fn read_lines(&self, dir: &Path, read: impl FnMut(&str)) -> Result<()> {
        println!("$ {self}");
        self.watch(dir, |_| {}, read)
    }

    /// Runs the command without showing its output. Passes the number of its process to `started`, and each line of its standard
    /// output to `read`.
    pub(crate) fn watch(&self, dir: &Path, started: impl FnOnce(u32), read: impl FnMut(&str)) -> Result<()> {
        let status = self.lines(dir, started, read)?;
        self.ensure_success(status)
    }

    fn lines(&self, dir: &Path, started: impl FnOnce(u32), mut read: impl FnMut(&str)) -> Result<ExitStatus> {
        let mut child = self.spawn(self.command(dir).stdout(Stdio::piped()))?;
        started(child.id());
        let mut output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        self.within_limit(child.id(), || {
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line)? > 0 {
                read(&String::from_utf8_lossy(&line));
                line.clear();
            }
            child.wait()
        })
    }

    /// Runs the command without showing anything; the caller checks the outcome.
    pub(crate) fn output(&self, dir: &Path) -> Result<Output> {
        let mut command = self.command(dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn(&mut command)?;
        self.within_limit(child.id(), || child.wait_with_output())
    }

    /// Returns the standard output of a command that has to succeed.
    pub(crate) fn read(&self, dir: &Path) -> Result<String> {
        let output = self.output(dir)?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        self.ensure_success(output.status)?;
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{self}` printed something other than UTF-8"))
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        command.spawn().with_context(|| format!("cannot start `{self}`"))
    }

    /// Calls `wait`, which returns when the process `id` has ended. Kills the process at the limit.
    fn within_limit<T>(&self, id: u32, wait: impl FnOnce() -> io::Result<T>) -> Result<T> {
        let killed = || format!("killed after {:?}, the limit of a command", self.limit);
        limit::within(self.limit, id, wait)?.ok_or_else(|| self.failed(killed(), None))
    }

    fn ensure_success(&self, status: ExitStatus) -> Result<()> {
        if status.success() { Ok(()) } else { Err(self.failed(status.to_string(), status.code())) }
    }

    fn failed(&self, end: String, code: Option<i32>) -> anyhow::Error {
        Failed { command: self.to_string(), end, code }.into()
    }

    /// The command for a process in `dir`, without variables about this package.
    pub(crate) fn command(&self, dir: &Path) -> Command {
        let (program, args) = self.words.split_first().expect("`new` puts the program first");
        let cargo = (program == "cargo").then(|| std::env::var_os("CARGO")).flatten();
        let mut command = Command::new(cargo.unwrap_or_else(|| program.into()));
        // `cargo xtask` describes this package in variables, on which build scripts of dependencies depend: with them, a step and
        // the same command by hand would recompile half of the dependencies each time.
        for (name, _) in std::env::vars_os() {
            if describes_package(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command.args(args).envs(self.env.iter().map(|(name, value)| (name, value))).current_dir(dir);
        command
    }
}

/// Whether a variable is one that `cargo run` sets for its program.
fn describes_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// In the syntax of a POSIX shell.
impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env = self.env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.words.iter().map(|word| quoted(word));
        f.write_str(&env.chain(words).collect::<Vec<_>>().join(" "))
    }
}

/// A command that ran and did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{end}; repeat it from the workspace root with\n\n    {command}\n")]
pub(crate) struct Failed {
    command: String,
    /// How it has ended.
    end: String,
    /// `None` if it was killed.
    code: Option<i32>,
}

impl Failed {
    /// The child's own code; 1 when a signal ended it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let code = self.code.and_then(|code| u8::try_from(code).ok());
        code.filter(|&code| code != 0).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// More than twice as long as the longest command takes on two processors: the tests, with `--all`.
const LIMIT: Duration = Duration::from_secs(30 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_in_shell_syntax() {
        let cmd = Cmd::cargo()
            .args("doc --no-deps")
            .path(Path::new("it's here"))
            .env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(cmd.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s here'");
    }

    #[test]
    fn a_command_has_no_variables_about_this_package() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo sets it for tests");
        let shown = Cmd::new("env").read(Path::new(".")).unwrap();
        assert!(!shown.contains("CARGO_PKG_") && !shown.contains("CARGO_MANIFEST_"), "{shown}");
    }

    #[test]
    fn a_failure_keeps_the_exit_code() {
        let error = Cmd::new("false").run(Path::new(".")).unwrap_err();
        let failed = error.downcast_ref::<Failed>().unwrap();
        assert_eq!(failed.code, Some(1));
        assert!(failed.to_string().contains("\n    false\n"), "{failed}");
    }

    #[test]
    fn a_command_is_killed_at_its_limit_with_its_descendants() {
        let mut cmd = Cmd::new("sh").args("-c").word("(sleep 30; echo survived) & echo started; wait");
        cmd.limit = Duration::from_secs(2);
        let mut lines = Vec::new();
        let error = cmd.run_reading(Path::new("."), |line| lines.push(line.to_owned())).unwrap_err();
        assert_eq!(lines, ["started\n"]);
        let shown = error.downcast_ref::<Failed>().unwrap().to_string();
        assert!(
            shown.starts_with("killed after 2s,") && shown.contains("\n    sh -c '(sleep 30;"),
            "{shown}"
        );
    }

    #[test]
    fn an_output_that_does_not_end_is_an_error_at_the_limit() {
        let mut cmd = Cmd::new("sleep").args("30");
        cmd.limit = Duration::from_millis(100);
        assert!(cmd.output(Path::new(".")).unwrap_err().is::<Failed>());
    }
}
