//! The processes that ask.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use portcullis_tests::faults::Op;

/// Several processes of this program.
pub(crate) struct Workers {
    workers: Vec<Worker>,
    folder: PathBuf,
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// What is left of a store that was let go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    pub(crate) tasks: u64,
    /// The longest that the machine kept anybody from running, in microseconds.
    pub(crate) stall: u64,
}

impl Workers {
    /// Starts processes that ask at `url`; the clocks of the first few are off by `offsets` as faketime takes them.
    pub(crate) fn start(url: &str, seed: u64, start: u64, offsets: &[&str]) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("portcullis-faults-{}-{start}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut crew = Self { workers: Vec::new(), folder };
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
            command.arg(crew.history(process)).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.stderr(File::create(crew.log(process))?).spawn()?;
            let output = BufReader::new(child.stdout.take().context("standard output is piped")?);
            let (sender, lines) = channel();
            thread::spawn(move || {
                output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
            let stdin = child.stdin.take().context("standard input is piped")?;
            crew.workers.push(Worker { child, stdin, lines });
        }
        crew.expect("ready")?;
        Ok(crew)
    }

    /// Lets all of them finish what they ask, and returns it.
    pub(crate) fn stop(&mut self) -> Result<Vec<Op>> {
        self.tell()?;
        self.expect("stopped")?;
        let mut ops = Vec::new();
        for process in 0..PROCESSES {
            for line in BufReader::new(File::open(self.history(process))?).lines() {
                ops.push(Op { process, ..line?.parse()? });
            }
        }
        Ok(ops)
    }

    /// Lets them drop their stores, and returns what that left.
    pub(crate) fn let_go(&mut self) -> Result<Remains> {
        self.tell()?;
        let mut remains = Remains::default();
        for line in self.hear()? {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let mut number = || numbers.next().context("there are two numbers")?.context("it is a number");
            remains.tasks += number()?;
            remains.stall = remains.stall.max(number()?);
        }
        Ok(remains)
    }

    /// What they logged, all in one.
    pub(crate) fn logs(&self) -> String {
        (0..PROCESSES).map(|process| fs::read_to_string(self.log(process)).unwrap_or_default()).collect()
    }

    fn tell(&mut self) -> Result<()> {
        self.workers.iter_mut().try_for_each(|worker| Ok(worker.stdin.write_all(b"\n")?))
    }

    fn hear(&self) -> Result<Vec<String>> {
        let line = |worker: &Worker| worker.lines.recv_timeout(PATIENCE);
        let lines: Result<Vec<_>, _> = self.workers.iter().map(line).collect();
        lines.with_context(|| format!("a process says nothing; they logged\n{}", self.logs()))
    }

    fn expect(&self, word: &str) -> Result<()> {
        let lines = self.hear()?;
        ensure!(lines.iter().all(|line| line == word), "{word} was expected, not {lines:?}");
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
        for worker in &mut self.workers {
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How many there are.
pub(crate) const PROCESSES: u16 = 3;
const PATIENCE: Duration = Duration::from_secs(30);
