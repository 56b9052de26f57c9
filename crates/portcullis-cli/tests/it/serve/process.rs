//! The process of a service, and a client that sees every byte.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, str};

use serde_json::Value;

use crate::rules::Folder;

/// No test waits for longer, and none takes nearly as long.
pub(super) const BOUND: Duration = Duration::from_secs(30);

/// One request. The window ends in 2069, and so in no test.
pub(super) const RULES: &str =
    "[policy.all]\nstrategy = \"fixed_window\"\nquota = \"1/18250d\"\nkey = \"client_ip\"\n";

pub(super) struct Service {
    process: Child,
    /// The first line that it writes.
    pub(super) started: Value,
    rules: PathBuf,
    _folder: Folder,
}

impl Service {
    /// A service on free ports, whose rules are this text in a file of this name.
    pub(super) fn start(name: &str, rules: &str, arguments: &[&str]) -> Self {
        let folder = folder();
        let rules = folder.write(name, rules);
        Self::spawn(folder, &rules.clone(), rules.into(), arguments)
    }

    /// A service whose rules are a folder, which has this text in a file of this name, or nothing.
    pub(super) fn start_folder(name: &str, rules: Option<&str>, arguments: &[&str]) -> Self {
        let folder = folder();
        let served = folder.path("rules");
        let file = PathBuf::from(&served).join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        if let Some(rules) = rules {
            fs::write(&file, rules).unwrap();
        }
        Self::spawn(folder, &served, file, arguments)
    }

    fn spawn(folder: Folder, served: &str, rules: PathBuf, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.env_remove("PORTCULLIS_ADMIN_TOKEN").env_remove("PORTCULLIS_STORE").args(["serve", served]);
        for listener in ["--grpc", "--http"] {
            if !arguments.contains(&listener) {
                command.args([listener, "127.0.0.1:0"]);
            }
        }
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { process, started, rules, _folder: folder }
    }

    /// The address of a listener.
    pub(super) fn addr(&self, place: &str) -> &str {
        self.started[place].as_str().unwrap()
    }

    pub(super) fn connect(&self, place: &str) -> TcpStream {
        let stream = TcpStream::connect(self.addr(place)).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream
    }

    pub(super) fn accepts(&self, place: &str) -> bool {
        TcpStream::connect(self.addr(place)).is_ok()
    }

    /// Sends a text over HTTP, and returns all that comes back.
    pub(super) fn ask(&self, text: &str) -> String {
        let mut stream = self.connect("http");
        // The server may refuse what it has not read.
        let _ = stream.write_all(text.as_bytes());
        rest(&mut stream)
    }

    pub(super) fn get(&self, path: &str) -> String {
        self.page("http", path)
    }

    pub(super) fn page(&self, place: &str, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(self.addr(place)) else {
            return String::new();
        };
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        rest(&mut stream)
    }

    pub(super) fn write_rules(&self, text: &str) {
        // As editors do: the file is never half written.
        let new = self.rules.with_file_name(".new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.rules).unwrap();
    }

    pub(super) fn remove_rules(&self) {
        fs::remove_file(&self.rules).unwrap();
    }

    pub(super) fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < BOUND, "not {what} in time");
            sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it has ended, by a signal as well.
    pub(super) fn wait_until_gone(&mut self) {
        self.process.wait().unwrap();
    }

    /// The exit code, once it has ended.
    pub(super) fn exit_code(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(start.elapsed() < BOUND, "it does not end");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder of a test.
pub(super) fn folder() -> Folder {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    Folder::new(&format!("serve-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// The exit code of a command that ends, and what it writes to standard output and standard error.
pub(super) fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.env_remove("PORTCULLIS_ADMIN_TOKEN").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// What the server sends until it closes the connection.
pub(super) fn rest(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof), "{error}");
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads until this text has come.
pub(super) fn read_until(stream: &mut TcpStream, end: &str) {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(end.as_bytes()) {
        // It goes on after an interruption, as when the process was stopped meanwhile.
        let read = stream.read_exact(&mut byte);
        assert!(read.is_ok(), "{read:?} after {}", String::from_utf8_lossy(&bytes));
        bytes.push(byte[0]);
    }
}
