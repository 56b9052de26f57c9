//! Real Redis servers on free ports, which end with the test.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A `redis-server` on a free port of the loopback, without persistence.
///
/// The environment variable `PORTCULLIS_REDIS_SERVER` puts another program in its place, such as the path of a
/// `valkey-server`: then all tests run on that.
///
/// It is killed when it is dropped, and also when the process that started it is killed: a shell stands between the
/// two, and goes when its standard input closes.
///
/// ```
/// use portcullis_testing::RedisServer;
///
/// # fn main() -> std::io::Result<()> {
/// let mut server = RedisServer::start()?;
/// assert_eq!(server.cli(&["PING"])?, "PONG");
/// server.kill()?;
/// server.restart()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    arguments: Vec<String>,
    directory: PathBuf,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// The shell. Its standard input is what keeps the server alive.
    shell: Child,
    pid: String,
}

impl RedisServer {
    /// What is started: `redis-server`, unless `PORTCULLIS_REDIS_SERVER` names something else.
    ///
    /// ```
    /// use portcullis_testing::RedisServer;
    ///
    /// let asked = std::env::var_os("PORTCULLIS_REDIS_SERVER");
    /// assert_eq!(RedisServer::program(), asked.unwrap_or("redis-server".into()));
    /// ```
    pub fn program() -> OsString {
        std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into())
    }

    /// Starts a server.
    ///
    /// # Errors
    ///
    /// If there is no `redis-server` on this machine, or it does not start within ten seconds.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with more arguments, such as `["--requirepass", "secret"]`.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`].
    pub fn start_with(arguments: &[&str]) -> io::Result<Self> {
        let mut server = Self::stopped_with(arguments)?;
        server.restart()?;
        Ok(server)
    }

    /// A port where nothing listens until the server is [restarted](RedisServer::restart).
    ///
    /// # Errors
    ///
    /// If there is no free port, or no directory can be made.
    pub fn stopped_with(arguments: &[&str]) -> io::Result<Self> {
        let port = free_port()?;
        let directory = std::env::temp_dir().join(format!("portcullis-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Ok(Self { port, arguments, directory, running: None })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL, as in `redis://127.0.0.1:6379`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts the server again on the same port; what it held in memory is gone.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        std::fs::create_dir_all(&self.directory)?;
        let mut shell = Command::new("sh")
            .args(["-c", SHELL])
            .arg(Self::program())
            .args(["--port", &self.port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--dir"])
            .arg(&self.directory)
            .args(&self.arguments)
            .env("DIRECTORY", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let end = Instant::now() + LONGEST_START;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if shell.try_wait()?.is_some() || Instant::now() > end {
                // Not by a signal: the shell has a server to take along.
                drop(shell.stdin.take());
                let _ = shell.wait();
                let program = Self::program().display().to_string();
                return Err(io::Error::other(format!(
                    "{program} does not start: is it installed? `cargo xtask test` installs redis-server"
                )));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let pid = self.info("server", "process_id:")?;
        self.running = Some(Running { shell, pid });
        Ok(())
    }

    /// Kills the server as a crash would, if it runs.
    ///
    /// # Errors
    ///
    /// If its process cannot be awaited.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if let Some(mut stdin) = running.shell.stdin.take() {
            // It may have ended by itself, and its shell with it.
            let _ = stdin.write_all(b"\n");
        }
        running.shell.wait()?;
        Ok(())
    }

    /// Sends a signal such as `STOP` or `CONT` to the server.
    ///
    /// # Errors
    ///
    /// If the server does not run.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let running = self.running.as_ref().ok_or_else(|| io::Error::other("the server does not run"))?;
        let status = Command::new("kill").args(["-s", name, &running.pid]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("cannot send {name}"))) }
    }

    /// What `redis-cli` prints for a command, without the line break at the end.
    ///
    /// # Errors
    ///
    /// If there is no `redis-cli` on this machine.
    pub fn cli(&self, arguments: &[&str]) -> io::Result<String> {
        let output =
            Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// How often the server has run a command, by its name in `INFO commandstats`.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::cli`].
    pub fn calls(&self, command: &str) -> io::Result<u64> {
        let calls = self.info("commandstats", &format!("cmdstat_{command}:calls="))?;
        Ok(calls.split(',').next().and_then(|calls| calls.parse().ok()).unwrap_or(0))
    }

    /// What follows `prefix` in a section of `INFO`; nothing if no line begins so.
    fn info(&self, section: &str, prefix: &str) -> io::Result<String> {
        let info = self.cli(&["INFO", section])?;
        let value = info.lines().find_map(|line| line.strip_prefix(prefix));
        Ok(value.unwrap_or_default().trim().to_owned())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // A destructor has nobody to tell.
        let _ = self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A free port that leaves room for a cluster's bus, which listens 10 000 above.
fn free_port() -> io::Result<u16> {
    for _ in 0..100 {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        if port < 55_000 {
            return Ok(port);
        }
    }
    Err(io::Error::other("no free port below 55000"))
}

/// Runs `$0 "$@"` until it ends by itself, a line comes in, or standard input closes without one: then nobody is left to
/// remove the directory. The server itself reads nothing.
const SHELL: &str = r#"exec 3<&0
"$0" "$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3 || rm -rf "$DIRECTORY"; kill -KILL $server; } 2>/dev/null &
reader=$!
wait $server
kill $reader 2>/dev/null"#;
const PROGRAM: &str = "PORTCULLIS_REDIS_SERVER";
const LONGEST_START: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_ends_with_the_shell_s_standard_input_however_that_closes() {
        let mut server = RedisServer::start().unwrap();
        let running = server.running.as_mut().unwrap();
        let alive = |pid: &str| {
            Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
        };
        let pid = running.pid.clone();
        assert!(alive(&pid));
        drop(running.shell.stdin.take());
        running.shell.wait().unwrap();
        assert!(!alive(&pid));
    }

    #[test]
    fn a_restart_is_on_the_same_port_with_nothing_in_memory() {
        let mut server = RedisServer::start().unwrap();
        server.cli(&["SET", "a", "1"]).unwrap();
        let (port, url) = (server.port(), server.url());
        server.restart().unwrap();
        assert_eq!((server.port(), server.url()), (port, url));
        assert_eq!(server.cli(&["DBSIZE"]).unwrap(), "0");
    }

    #[test]
    fn a_paused_server_answers_once_it_goes_on() {
        let server = RedisServer::start().unwrap();
        server.signal("STOP").unwrap();
        server.signal("CONT").unwrap();
        assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
        assert!(server.calls("ping").unwrap() >= 1);
    }
}
