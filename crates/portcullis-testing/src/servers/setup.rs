//! What servers are like, before they start.

use std::io;
use std::time::Duration;

use super::{RedisCluster, RedisSentinels, RedisServer};

/// Describes servers that differ from the plain ones of [`RedisServer::start`], [`RedisCluster::start`] and
/// [`RedisSentinels::start`].
///
/// ```
/// use portcullis_testing::ServerSetup;
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
            persistent: false,
            tls: false,
            node_timeout: Duration::from_secs(1),
            down_after: Duration::from_millis(500),
        }
    }

    /// Adds arguments of the command line, such as `["--maxmemory", "2mb"]`. Sentinels do not get them.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Adds an environment variable, such as `LD_PRELOAD`; see also [`RedisServer::set_environment`].
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets the user of the URL use the keys of this namespace, and of no other.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces = vec![namespace.to_owned()];
        self
    }

    /// Keeps every write on disk, so that it survives a kill.
    pub fn persistent(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// Speaks TLS only, also between the servers, under a certificate for 127.0.0.1 that is signed by an authority of this
    /// process. Valkey's Python package cannot.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// How long a node of a cluster may be silent before it is taken for dead, 1 s by default.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// How long a server may be silent before a sentinel takes it for dead, 500 ms by default.
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

    /// Reserves a port where nothing listens until the server is [restarted](RedisServer::restart).
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
    /// As [`RedisCluster::start`].
    pub fn cluster(self, primaries: usize, replicas_per_primary: usize) -> io::Result<RedisCluster> {
        RedisCluster::start_as(self, primaries, replicas_per_primary)
    }

    /// Starts a primary with replicas, and sentinels that watch it.
    ///
    /// # Errors
    ///
    /// As [`RedisSentinels::start`].
    pub fn sentinels(self, sentinels: usize, replicas: usize) -> io::Result<RedisSentinels> {
        RedisSentinels::start_as(&self, sentinels, replicas)
    }
}

impl Default for ServerSetup {
    fn default() -> Self {
        Self::new()
    }
}
