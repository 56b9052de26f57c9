//! Servers that are processes of their own, on free ports of the loopback.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A running server with a folder of its own. Both end with this value.
#[derive(Debug)]
pub struct Process {
    child: Child,
    addr: SocketAddr,
    folder: PathBuf,
}

impl Process {
    /// Runs a program in a folder with these files, and waits until it listens. `listening` is the address that the files or the arguments name.
    pub fn start(
        program: &Path,
        listening: SocketAddr,
        files: &[(&str, String)],
        arguments: &[&str],
    ) -> Result<Self> {
        let name = format!("portcullis-bench-{}-{}", std::process::id(), listening.port());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        for (name, text) in files {
            fs::write(folder.join(name), text)?;
        }
        // Debian installs servers in a folder that is not in every user's path.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&folder)
            .env("PATH", path)
            // Where Caddy keeps what it has to remember.
            .env("XDG_CONFIG_HOME", &folder)
            .env("XDG_DATA_HOME", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join(LOG))?)
            .spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        let mut process = Self { child, addr: listening, folder };
        let end = Instant::now() + LONGEST_START;
        while TcpStream::connect(listening).is_err() {
            if process.child.try_wait()?.is_some() || Instant::now() > end {
                let log = fs::read_to_string(process.folder.join(LOG)).unwrap_or_default();
                bail!("{} does not listen on {listening}:\n{log}", program.display());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(process)
    }

    /// The address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The processor time that it and its children have spent, which only Linux says.
    pub fn cpu(&self) -> Option<Duration> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = fs::read_to_string(children).ok()?;
        let mut nanos = nanos_of(&self.child.id().to_string())?;
        for child in children.split_whitespace() {
            nanos += nanos_of(child)?;
        }
        Some(Duration::from_nanos(nanos))
    }

    /// The microseconds of it since an earlier answer of [`cpu`](Self::cpu); not a number where that is unknown.
    pub fn micros_since(&self, before: Option<Duration>) -> f64 {
        let spent = self.cpu().zip(before).and_then(|(now, before)| now.checked_sub(before));
        spent.map_or(f64::NAN, |spent| spent.as_secs_f64() * 1e6)
    }
}

/// The nanoseconds of all threads of a process.
fn nanos_of(process: &str) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of_thread = |thread: fs::DirEntry| match fs::read_to_string(thread.path().join("schedstat")) {
        Ok(figures) => figures.split_whitespace().next()?.parse().ok(),
        // It has ended meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Some(0),
        Err(_) => None,
    };
    threads.map(|thread| of_thread(thread.ok()?)).sum()
}

impl Drop for Process {
    fn drop(&mut self) {
        // A server that is killed leaves its workers behind.
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let end = Instant::now() + LONGEST_END;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A free address of the loopback. Another process may take it before it is used, and then that does not start.
pub fn free_addr() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The program of this workspace beside the one that runs.
pub fn portcullis() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("portcullis");
    anyhow::ensure!(program.exists(), "build portcullis-cli first: there is no {}", program.display());
    Ok(program)
}

/// Keeps this process, and those that it starts, on two processors. Returns a sentence about it.
pub fn pin() -> &'static str {
    let id = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-a", "-c", "-p", "0,1", &id]).stdout(Stdio::null()).status();
    match pinned {
        Ok(status) if status.success() => "All processes share two processors.",
        _ => "The processes were not pinned to processors.",
    }
}

const LOG: &str = "log";
const LONGEST_START: Duration = Duration::from_secs(20);
const LONGEST_END: Duration = Duration::from_secs(5);
