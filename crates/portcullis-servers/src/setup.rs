//! The settings of servers.

use std::time::Duration;

use super::rights::{DOCUMENT_RIGHTS, LEAST_RIGHTS, LEAST_RIGHTS_WITH_EVAL, PASSWORD, SLIDING_LOG_RIGHTS};

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
///
/// [`RedisServer::start`]: crate::RedisServer::start
/// [`RedisCluster::start`]: crate::RedisCluster::start
/// [`RedisSentinels::start`]: crate::RedisSentinels::start
#[must_use = "a setup does nothing until it is started"]
#[derive(Clone, Debug)]
pub struct ServerSetup {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    namespaces: Vec<String>,
    least_rights: [&'static str; 5],
    pub(super) persistent: bool,
    pub(super) tls: bool,
    pub(super) node_timeout: Duration,
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
        }
    }

    /// Adds command line arguments, such as `["--maxmemory", "2mb"]`. They do not apply to sentinels.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Adds an environment variable, such as `LD_PRELOAD`; see also
    /// [`RedisServer::set_environment`](crate::RedisServer::set_environment).
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

    /// The ACL rules of the user of the URL: the minimal rights, those of a sliding log and of a reader of documents, the rights in
    /// `more`, and the keys of the namespaces.
    pub(super) fn acl_rules(&self, more: &[&str]) -> Vec<String> {
        let password = format!(">{PASSWORD}");
        let fixed = ["reset", "on", password.as_str(), "resetchannels", "-@all"];
        let words = fixed
            .iter()
            .chain(&self.least_rights)
            .chain(&SLIDING_LOG_RIGHTS)
            .chain(&DOCUMENT_RIGHTS)
            .chain(more);
        let keys = self.namespaces.iter().map(|namespace| format!("~{namespace}:*"));
        words.map(ToString::to_string).chain(keys).collect()
    }
}

impl Default for ServerSetup {
    fn default() -> Self {
        Self::new()
    }
}
