//! Child processes whose failures state the command to repeat.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Output, Stdio};

use anyhow::{Context as _, Result};

/// A command line that can be printed, pasted and run again.
#[derive(Debug, Clone)]
pub(crate) struct Cmd {
    words: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Cmd {
    pub(crate) fn new(program: &str) -> Self {
        Self { words: vec![program.to_owned()], env: Vec::new() }
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

    /// Shows the command, runs it in `dir` with its output visible, and fails unless it succeeds.
    pub(crate) fn run(&self, dir: &Path) -> Result<()> {
        println!("$ {self}");
        let status = self.command(dir).status().with_context(|| format!("cannot start `{self}`"))?;
        self.ensure_success(status)
    }

    /// Like [`run`](Self::run), and passes each line of standard output to `read` after showing it.
    pub(crate) fn run_reading(&self, dir: &Path, mut read: impl FnMut(&str)) -> Result<()> {
        println!("$ {self}");
        let mut command = self.command(dir);
        let mut child =
            command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{self}`"))?;
        let mut output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? > 0 {
            io::stdout().write_all(&line)?;
            read(&String::from_utf8_lossy(&line));
            line.clear();
        }
        self.ensure_success(child.wait()?)
    }

    /// Runs the command without showing anything; the caller checks the outcome.
    pub(crate) fn output(&self, dir: &Path) -> Result<Output> {
        self.command(dir).output().with_context(|| format!("cannot start `{self}`"))
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

    fn ensure_success(&self, status: ExitStatus) -> Result<()> {
        if status.success() { Ok(()) } else { Err(Failed { command: self.to_string(), status }.into()) }
    }

    fn command(&self, dir: &Path) -> Command {
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
#[derive(Debug)]
pub(crate) struct Failed {
    command: String,
    status: ExitStatus,
}

impl Failed {
    /// The child's own code; 1 when a signal ended it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let code = self.status.code().and_then(|code| u8::try_from(code).ok());
        code.filter(|&code| code != 0).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; repeat it from the workspace root with\n\n    {}\n", self.status, self.command)
    }
}

impl std::error::Error for Failed {}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

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
        assert_eq!(failed.status.code(), Some(1));
        assert!(failed.to_string().contains("\n    false\n"), "{failed}");
    }
}
