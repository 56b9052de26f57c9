//! Redis servers and log lines, for tests.

use std::cell::RefCell;
use std::sync::Once;

use portcullis_servers::{FaultProxy, RedisServer, ServerSetup};

use crate::connection::Connection;
use crate::transport::Options;

/// A server that panics on every failure.
pub(crate) struct Server {
    pub(crate) port: u16,
    server: RedisServer,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::new(RedisServer::start_with(arguments).unwrap())
    }

    /// A server whose user has `EVAL` in place of `SCRIPT LOAD`.
    pub(crate) fn without_script_load() -> Self {
        Self::new(ServerSetup::new().without_script_load().server().unwrap())
    }

    /// A server that is not started yet.
    pub(crate) fn stopped(arguments: &[&str]) -> Self {
        Self::new(RedisServer::stopped_with(arguments).unwrap())
    }

    fn new(server: RedisServer) -> Self {
        Self { port: server.port(), server }
    }

    /// A proxy in front of the server, and a connection through it.
    pub(crate) async fn behind_proxy(&self, options: Options) -> (FaultProxy, Connection) {
        let proxy = FaultProxy::start(self.port).unwrap();
        let url = format!("redis://127.0.0.1:{}", proxy.port());
        let connection = Connection::open(&url, options).await.unwrap();
        (proxy, connection)
    }

    pub(crate) fn run(&mut self) {
        self.server.restart().unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        self.server.signal(name).unwrap();
    }

    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        self.server.cli(arguments).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn admin_url(&self) -> String {
        self.server.admin_url()
    }

    pub(crate) fn calls(&self, command: &str) -> u64 {
        self.server.calls(command).unwrap()
    }

    /// How often a command was refused, which [`calls`](Self::calls) does not count.
    pub(crate) fn refusals(&self, command: &str) -> u64 {
        let (stats, name) = (self.cli(&["INFO", "commandstats"]), format!("cmdstat_{command}:"));
        let line = stats.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
        let refused = line.split(',').find_map(|field| field.strip_prefix("rejected_calls="));
        refused.map_or(0, |number| number.parse().unwrap())
    }

    pub(crate) fn clients(&self) -> usize {
        self.server.clients().unwrap()
    }
}

/// Collects the log lines of this thread. There is one subscriber for all threads, because tracing caches for each line
/// whether there is a subscriber.
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

    /// The lines, except for the line with the server's properties.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.all().into_iter().filter(|line| !line.contains("redis found: ")).collect()
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn all(&self) -> Vec<String> {
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
