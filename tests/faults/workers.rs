//! The worker processes, which call the store.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use portcullis_histories::Op;

/// Several worker processes of this program.
pub(crate) struct Workers {
    processes: Vec<Worker>,
    folder: PathBuf,
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// What the workers report after they have dropped their stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerReport {
    /// The tasks that still run.
    pub(crate) tasks: u64,
    /// The longest scheduling delay of a task, in microseconds.
    pub(crate) stall: u64,
}

impl Workers {
    /// Starts processes that call the store at `url`. The clocks of the first ones are shifted by `offsets`, in faketime's
    /// format.
    pub(crate) fn start(url: &str, seed: u64, start: u64, offsets: &[&str]) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("portcullis-faults-{}-{start}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut workers = Self { processes: Vec::new(), folder };
        let program = std::env::current_exe()?;
        for process in 0..PROCESSES {
            let mut command = match offsets.get(usize::from(process)) {
                None => Command::new(&program),
                Some(offset) => {
                    let mut command = Command::new("faketime");
                    command.args(["-f", offset]).arg(&program).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                    command
                }
            };
            command.args(["worker", "--url", url, "--process", &process.to_string()]);
            command.args(["--seed", &seed.to_string(), "--start", &start.to_string(), "--history"]);
            command.arg(workers.history(process)).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.stderr(File::create(workers.log(process))?).spawn()?;
            let output = BufReader::new(child.stdout.take().context("standard output is piped")?);
            let (sender, lines) = channel();
            thread::spawn(move || {
                output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
            let stdin = child.stdin.take().context("standard input is piped")?;
            workers.processes.push(Worker { child, stdin, lines });
        }
        workers.expect_line("ready")?;
        Ok(workers)
    }

    /// Lets all workers finish their calls, and returns the operations.
    pub(crate) fn stop(&mut self) -> Result<Vec<Op>> {
        self.send_line()?;
        self.expect_line("stopped")?;
        let mut ops = Vec::new();
        for process in 0..PROCESSES {
            for line in BufReader::new(File::open(self.history(process))?).lines() {
                ops.push(Op { process, ..line?.parse()? });
            }
        }
        Ok(ops)
    }

    /// Makes the workers drop their stores, and returns their reports combined.
    pub(crate) fn drop_stores(&mut self) -> Result<WorkerReport> {
        self.send_line()?;
        let mut report = WorkerReport::default();
        for line in self.read_lines()? {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let mut number = || {
                numbers
                    .next()
                    .context("the report has fewer than two numbers")?
                    .context("the report has no number")
            };
            report.tasks += number()?;
            report.stall = report.stall.max(number()?);
        }
        Ok(report)
    }

    /// The concatenated logs of all workers.
    pub(crate) fn logs(&self) -> String {
        (0..PROCESSES).map(|process| fs::read_to_string(self.log(process)).unwrap_or_default()).collect()
    }

    fn send_line(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(|worker| Ok(worker.stdin.write_all(b"\n")?))
    }

    fn read_lines(&self) -> Result<Vec<String>> {
        let line = |worker: &Worker| worker.lines.recv_timeout(REPLY_TIMEOUT);
        let lines: Result<Vec<_>, _> = self.processes.iter().map(line).collect();
        lines.with_context(|| format!("a worker does not answer; the logs are\n{}", self.logs()))
    }

    fn expect_line(&self, word: &str) -> Result<()> {
        let lines = self.read_lines()?;
        ensure!(lines.iter().all(|line| line == word), "expected {word}, got {lines:?}");
        Ok(())
    }

    fn history(&self, process: u16) -> PathBuf {
        self.file(process, "ops")
    }

    fn log(&self, process: u16) -> PathBuf {
        self.file(process, "log")
    }

    fn file(&self, process: u16, extension: &str) -> PathBuf {
        Path::new(&self.folder).join(format!("{process}.{extension}"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.processes {
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The number of workers.
pub(crate) const PROCESSES: u16 = 3;
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
