//! A child process that ends with the process that started it.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server process and the shell that supervises it.
#[derive(Debug)]
pub(super) struct Process {
    /// The server runs until the standard input of the shell closes.
    shell: Child,
    pid: String,
}

impl Process {
    /// Runs a program that keeps its files in `directory`. Its output goes to the file `log` there.
    pub(super) fn start(
        program: &OsStr,
        arguments: &[String],
        environment: &[(String, String)],
        directory: &Path,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            // Set by `env` for the program only, because the shell runs other commands.
            .args(["-c", SHELL, "env"])
            .args(environment.iter().map(|(name, value)| format!("{name}={value}")))
            .arg(program)
            .args(arguments)
            .env("DIRECTORY", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut pid = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut pid)?;
        }
        Ok(Self { shell, pid: pid.trim().to_owned() })
    }

    /// Whether the process has ended on its own.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.shell.try_wait()?.is_some())
    }

    /// Kills the process with SIGKILL, and keeps its files.
    pub(super) fn kill(mut self) -> io::Result<()> {
        if let Some(mut stdin) = self.shell.stdin.take() {
            // The write fails if the process and its shell have already ended.
            let _ = stdin.write_all(b"\n");
        }
        self.shell.wait()?;
        Ok(())
    }

    pub(super) fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.pid]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("cannot send {name}"))) }
    }
}

/// Runs `$0 "$@"` and prints its process id. The program runs until it ends on its own, a line is read, or standard input
/// closes without one. In the last case the parent has ended, so the shell removes the directory. The program itself reads
/// nothing.
const SHELL: &str = r#"exec 3<&0
"$0" "$@" </dev/null >"$DIRECTORY/log" 2>&1 3<&- &
server=$!
echo $server
exec >/dev/null
{
  if read -r _ <&3; then kill -KILL $server; else
    trap "" TERM
    kill -KILL $server
    while kill -0 $server; do sleep 0.01; done
    rm -rf "$DIRECTORY"
  fi
} 2>/dev/null &
reader=$!
wait $server
kill $reader 2>/dev/null"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;

    #[test]
    fn a_process_ends_when_its_standard_input_closes() {
        let directory = std::env::temp_dir().join(format!("portcullis-process-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let alive = |pid: &str| {
            Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
        };
        let environment = [("LENGTH".to_owned(), "60".to_owned())];
        let arguments = ["-c", "echo $LENGTH; exec sleep 60"].map(str::to_owned);
        let start = || Process::start("sh".as_ref(), &arguments, &environment, &directory).unwrap();

        let mut closed = start();
        let pid = closed.pid.clone();
        assert!(alive(&pid) && !closed.has_ended().unwrap());
        drop(closed.shell.stdin.take());
        closed.shell.wait().unwrap();
        assert!(!alive(&pid));
        wait_until("the shell removes the directory", || Ok(!directory.exists())).unwrap();

        std::fs::create_dir_all(&directory).unwrap();
        let killed = start();
        let pid = killed.pid.clone();
        let log = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        wait_until("the program writes its log", || Ok(log() == "60\n")).unwrap();
        killed.kill().unwrap();
        assert!(!alive(&pid) && directory.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
