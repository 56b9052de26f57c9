//! The settings of servers.

use std::io;
use std::time::Duration;

use super::rights::{LEAST_RIGHTS, LEAST_RIGHTS_WITH_EVAL};
use super::{RedisCluster, RedisSentinels, RedisServer};

/// Settings that differ from those of [`RedisServer::start`], [`RedisCluster::start`] and [`RedisSentinels::start`].
///
/// ```
/// use portcullis_servers::ServerSetup;
///
/// # fn main() -> std::io::Result<()> {
/// let mut server = ServerSetup::new().persistent().server()?;
/// server.cli(&["SET", "a", "1"])?;
/// server.restart()?;
/// assert_eq!(server.cli(&["GET", "a"])?, "1");
/// # Ok(())
/// # }
/// ```
#[must_use = "a setup does nothing until it is started"]
#[derive(Clone, Debug)]
pub struct ServerSetup {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) namespaces: Vec<String>,
    pub(super) least_rights: [&'static str; 5],
    pub(super) persistent: bool,
    pub(super) tls: bool,
    pub(super) node_timeout: Duration,
    pub(super) down_after: Duration,
}

impl ServerSetup {
    /// Servers without persistence and TLS, whose user may use the namespaces `portcullis` and `portcullis-scenario`.
    pub fn new() -> Self {
        Self {
            arguments: Vec::new(),
            environment: Vec::new(),
            namespaces: ["portcullis", "portcullis-scenario"].map(str::to_owned).to_vec(),
            least_rights: LEAST_RIGHTS,
            persistent: false,
            tls: false,
            node_timeout: Duration::from_secs(1),
            down_after: Duration::from_millis(500),
        }
    }

    /// Adds command line arguments, such as `["--maxmemory", "2mb"]`. They do not apply to sentinels.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Adds an environment variable, such as `LD_PRELOAD`; see also [`RedisServer::set_environment`].
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Restricts the user of the URL to the keys of this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces = vec![namespace.to_owned()];
        self
    }

    /// Gives the user of the URL `EVAL` in place of `SCRIPT LOAD`; see [`LEAST_RIGHTS_WITH_EVAL`].
    pub fn without_script_load(mut self) -> Self {
        self.least_rights = LEAST_RIGHTS_WITH_EVAL;
        self
    }

    /// Writes every change to disk, so that it survives a kill.
    pub fn persistent(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// Uses TLS only, also between the servers, with a certificate for 127.0.0.1 that is signed by an authority of this
    /// process. The `valkey-server` of the Python package does not support TLS.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Sets the time without an answer after which a cluster node is marked as failed, 1 s by default.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Sets the time without an answer after which a sentinel considers a server down, 500 ms by default.
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// Starts one server.
    ///
    /// # Errors
    ///
    /// If there is no `redis-server` on this machine, or it does not start in time.
    pub fn server(self) -> io::Result<RedisServer> {
        let mut server = self.stopped_server()?;
        server.restart()?;
        Ok(server)
    }

    /// Reserves a port without a listener; [`restart`](RedisServer::restart) starts the server.
    ///
    /// # Errors
    ///
    /// If there is no free port, or no directory can be made.
    pub fn stopped_server(self) -> io::Result<RedisServer> {
        RedisServer::new(self, Vec::new(), &[])
    }

    /// Starts a cluster.
    ///
    /// # Errors
    ///
    /// The same as [`RedisCluster::start`].
    pub fn cluster(self, primaries: usize, replicas_per_primary: usize) -> io::Result<RedisCluster> {
        RedisCluster::start_as(self, primaries, replicas_per_primary)
    }

    /// Starts a primary with replicas, and sentinels that monitor it.
    ///
    /// # Errors
    ///
    /// The same as [`RedisSentinels::start`].
    pub fn sentinels(self, sentinels: usize, replicas: usize) -> io::Result<RedisSentinels> {
        RedisSentinels::start_as(&self, sentinels, replicas)
    }
}

impl Default for ServerSetup {
    fn default() -> Self {
        Self::new()
    }
}
