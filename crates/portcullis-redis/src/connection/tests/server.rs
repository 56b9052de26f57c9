//! Redis servers on free ports, killed when dropped.

use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

pub(crate) struct Server {
    pub(crate) port: u16,
    args: Vec<String>,
    dir: PathBuf,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut server = Self::stopped(args);
        server.run();
        server
    }

    /// A port where nothing listens yet.
    pub(crate) fn stopped(args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // A cluster bus listens on port + 10000.
        if port > 55_000 {
            return Self::stopped(args);
        }
        let dir = std::env::temp_dir().join(format!("portcullis-{port}"));
        std::fs::create_dir_all(&dir).unwrap();
        Self { port, args: args.iter().map(ToString::to_string).collect(), dir, child: None }
    }

    pub(crate) fn run(&mut self) {
        let port = self.port.to_string();
        let child = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(&self.dir)
            .args(&self.args)
            .stdout(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        let end = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "redis-server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends a signal such as `STOP` or `CONT` to the process.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub(crate) fn cli(&self, args: &[&str]) -> String {
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How often the server has run a command, by its name in `commandstats`.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let stats = self.cli(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    pub(crate) fn clients(&self) -> usize {
        self.cli(&["CLIENT", "LIST"]).lines().filter(|line| !line.contains("cmd=client|list")).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Collects the log lines of this thread. One subscriber for all threads, since tracing remembers for each
/// line whether anybody listens.
pub(crate) struct Log;

thread_local!(static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

impl Log {
    pub(crate) fn capture() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let subscriber =
                tracing_subscriber::fmt().with_writer(|| Self).with_ansi(false).without_time().finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        LINES.take();
        Self
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn lines(&self) -> Vec<String> {
        LINES.with_borrow(|lines| String::from_utf8_lossy(lines).lines().map(str::to_owned).collect())
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
