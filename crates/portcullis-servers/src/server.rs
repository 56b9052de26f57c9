//! A single server.

mod cli;
mod query;

use std::ffi::OsString;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;

use super::certificate::Identity;
use super::ports::Port;
use super::process::Process;
use super::rights::{PASSWORD, USER};
use super::setup::ServerSetup;
use super::{HOST, wait_until};

/// A `redis-server` on a free port of the loopback interface, without persistence.
///
/// The environment variable `PORTCULLIS_REDIS_SERVER` selects another program, such as the path of a `valkey-server`, for
/// all tests.
///
/// Its [URL](RedisServer::url) is that of a user with [the minimal rights](crate::LEAST_RIGHTS), or those
/// [without `SCRIPT LOAD`](ServerSetup::without_script_load); [`cli`](RedisServer::cli) has all rights.
///
/// It is killed when it is dropped, and also when the process that started it is killed: a shell supervises it, and ends it
/// when the standard input of the shell closes.
///
/// ```
/// use portcullis_servers::RedisServer;
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
    port: Port,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    tls: bool,
    running: Option<Process>,
}

impl RedisServer {
    /// The program to start: `redis-server`, unless `PORTCULLIS_REDIS_SERVER` names another.
    ///
    /// ```
    /// use portcullis_servers::RedisServer;
    ///
    /// let asked = std::env::var_os("PORTCULLIS_REDIS_SERVER");
    /// assert_eq!(RedisServer::program(), asked.unwrap_or("redis-server".into()));
    /// ```
    pub fn program() -> OsString {
        std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into())
    }

    /// Starts a server.
    pub fn start() -> io::Result<Self> {
        ServerSetup::new().server()
    }

    /// Starts a server with additional arguments, such as `["--requirepass", "secret"]`.
    pub fn start_with(arguments: &[&str]) -> io::Result<Self> {
        ServerSetup::new().arguments(arguments).server()
    }

    /// Reserves a port without a listener; [`restart`](RedisServer::restart) starts the server.
    pub fn stopped_with(arguments: &[&str]) -> io::Result<Self> {
        ServerSetup::new().arguments(arguments).stopped_server()
    }

    /// Creates a server with the arguments and the user rights that its topology adds.
    pub(super) fn new(setup: ServerSetup, more: Vec<String>, rights: &[&str]) -> io::Result<Self> {
        let mut server = Self::unconfigured(&setup)?;
        server.arguments =
            server.options()?.into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect();
        server.arguments.extend(["--save", "", "--daemonize", "no", "--user", USER].map(str::to_owned));
        server.arguments.extend(setup.acl_rules(rights));
        if setup.persistent {
            server.arguments.extend(["--appendonly", "yes", "--appendfsync", "always"].map(str::to_owned));
        }
        server.arguments.extend(more);
        server.arguments.extend(setup.arguments);
        Ok(server)
    }

    /// Creates a sentinel, which must be [configured](RedisServer::configure) before it starts.
    pub(super) fn sentinel(setup: &ServerSetup) -> io::Result<Self> {
        let mut server = Self::unconfigured(setup)?;
        let path = server.directory.join("sentinel.conf");
        server.arguments = vec![path.display().to_string(), "--sentinel".to_owned()];
        Ok(server)
    }

    /// Writes the configuration file of a sentinel, in which the sentinel also stores its state.
    pub(super) fn configure(&self, lines: &str) -> io::Result<()> {
        let options = self.options()?.into_iter().map(|(name, value)| format!("{name} {value}\n"));
        std::fs::write(self.directory.join("sentinel.conf"), options.collect::<String>() + lines)
    }

    fn unconfigured(setup: &ServerSetup) -> io::Result<Self> {
        let port = Port::reserve()?;
        let name = format!("portcullis-redis-{}-{}", std::process::id(), port.number());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        let (environment, tls) = (setup.environment.clone(), setup.tls);
        Ok(Self { port, arguments: Vec::new(), environment, directory, tls, running: None })
    }

    /// The options of every server.
    fn options(&self) -> io::Result<Vec<(&'static str, String)>> {
        let (port, disabled) = (self.port().to_string(), "0".to_owned());
        let mut options = vec![("bind", HOST.to_owned()), ("dir", self.directory.display().to_string())];
        if self.tls {
            options.extend([("port", disabled), ("tls-port", port), ("tls-auth-clients", "no".to_owned())]);
            options.extend([("tls-replication", "yes".to_owned()), ("tls-cluster", "yes".to_owned())]);
            options.extend(Identity::shared().write(&self.directory)?);
        } else {
            options.push(("port", port));
        }
        Ok(options)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL of a user with only the rights that a store needs, as in `redis://user:password@127.0.0.1:6379`.
    pub fn url(&self) -> String {
        format!("{}://{USER}:{PASSWORD}@{}", self.scheme(), self.address())
    }

    /// The URL of the default user, which has all rights, as in `redis://127.0.0.1:6379`.
    pub fn admin_url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address())
    }

    /// The certificate of the authority to trust, in PEM, if the server uses TLS.
    pub fn root_certificate(&self) -> Option<&'static str> {
        self.tls.then(|| Identity::shared().root.as_str())
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls { "rediss" } else { "redis" }
    }

    pub(super) fn address(&self) -> String {
        format!("{HOST}:{}", self.port())
    }

    /// Whether it was started and not killed since then.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Sets an environment variable, or removes it, from the next [restart](RedisServer::restart) on.
    pub fn set_environment(&mut self, name: &str, value: Option<&str>) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    /// Starts the server again on the same port. It is empty, unless it is [persistent](ServerSetup::persistent).
    pub fn restart(&mut self) -> io::Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts the process without waiting for the server to listen.
    pub(super) fn launch(&mut self) -> io::Result<()> {
        self.kill()?;
        let process = Process::start(&Self::program(), &self.arguments, &self.environment, &self.directory)?;
        self.running = Some(process);
        Ok(())
    }

    pub(super) fn wait_until_ready(&mut self) -> io::Result<()> {
        let (program, address) = (Self::program().display().to_string(), self.address());
        wait_until(&format!("{program} answers at {address}"), || {
            if self.running.as_mut().is_none_or(|running| running.has_ended().unwrap_or(true)) {
                let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
                self.kill()?;
                return Err(io::Error::other(format!(
                    "{program} does not start: is it installed? `cargo xtask test` installs redis-server. Last log: {last}"
                )));
            }
            // It accepts connections while it still loads its files.
            Ok(TcpStream::connect(&address).is_ok() && !self.cli(&["PING"])?.starts_with("LOADING"))
        })
    }

    /// Kills the server with SIGKILL, if it is running. Its files are kept.
    pub fn kill(&mut self) -> io::Result<()> {
        self.running.take().map_or(Ok(()), Process::kill)
    }

    /// Sends a signal such as `STOP` or `CONT` to the server.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let running = self.running.as_ref().ok_or_else(|| io::Error::other("the server does not run"))?;
        running.signal(name)
    }
}

impl ServerSetup {
    /// Starts one server.
    pub fn server(self) -> io::Result<RedisServer> {
        let mut server = self.stopped_server()?;
        server.restart()?;
        Ok(server)
    }

    /// Reserves a port without a listener; [`restart`](RedisServer::restart) starts the server.
    pub fn stopped_server(self) -> io::Result<RedisServer> {
        RedisServer::new(self, Vec::new(), &[])
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // A destructor cannot return an error.
        let _ = self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

const PROGRAM: &str = "PORTCULLIS_REDIS_SERVER";

#[cfg(test)]
mod tests;
