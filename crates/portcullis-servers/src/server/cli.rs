//! Queries a server, with `redis-cli` where that does more than send a command.

use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use super::RedisServer;
use super::query::query;
use crate::TIMEOUT;
use crate::certificate::ROOT;

impl RedisServer {
    /// Runs a command as the default user, and returns the output of `redis-cli` without trailing whitespace. Options of
    /// `redis-cli` may precede the command.
    pub fn cli(&self, arguments: &[&str]) -> io::Result<String> {
        let has_options = arguments.first().is_some_and(|argument| argument.starts_with('-'));
        let output = if self.tls || has_options {
            self.output_of_redis_cli(arguments)?
        } else {
            query(self.port(), arguments)?
        };
        Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
    }

    fn output_of_redis_cli(&self, arguments: &[&str]) -> io::Result<Vec<u8>> {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port().to_string()]);
        if self.tls {
            command.arg("--tls").arg("--cacert").arg(self.directory.join(ROOT));
        }
        output_in_time(command.args(arguments))
    }

    /// The number of calls of a command, by its name in `INFO commandstats`.
    pub fn calls(&self, command: &str) -> io::Result<u64> {
        self.calls_of(&[command])
    }

    /// The number of calls of these commands in all.
    pub fn calls_of(&self, commands: &[&str]) -> io::Result<u64> {
        let statistics = self.cli(&["INFO", "commandstats"])?;
        let calls = |line: &str| {
            let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            commands.contains(&command).then(|| figures.split(',').next()?.parse::<u64>().ok())?
        };
        Ok(statistics.lines().filter_map(calls).sum())
    }

    /// The number of connected clients, without replicas, sentinels and this query itself.
    pub fn clients(&self) -> io::Result<usize> {
        let list = self.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"])?;
        let others = ["cmd=client|list", " name=sentinel-"];
        Ok(list.lines().filter(|line| others.iter().all(|other| !line.contains(other))).count())
    }

    /// The rest of the line that begins with `prefix` in a section of `INFO`; empty if there is none.
    pub fn info(&self, section: &str, prefix: &str) -> io::Result<String> {
        let info = self.cli(&["INFO", section])?;
        let value = info.lines().find_map(|line| line.strip_prefix(prefix));
        Ok(value.unwrap_or_default().trim().to_owned())
    }
}

/// The standard output of a command, which is killed if it does not end in time: a stopped server never answers.
fn output_in_time(command: &mut Command) -> io::Result<Vec<u8>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut stdout = child.stdout.take().expect("standard output is piped");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut output = Vec::new();
        let result = stdout.read_to_end(&mut output);
        // Nothing receives it if it is late.
        let _ = sender.send(result.map(|_| output));
    });
    let output = receiver.recv_timeout(TIMEOUT);
    if output.is_err() {
        child.kill()?;
    }
    child.wait()?;
    output.unwrap_or_else(|_| Err(io::Error::other(format!("no answer after {TIMEOUT:?} to {command:?}"))))
}
