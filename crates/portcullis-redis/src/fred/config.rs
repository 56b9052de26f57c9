//! The configuration of clients.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::fred::clients::Client;
use ::fred::interfaces::ClientLike as _;
use ::fred::types::config::{Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig};

use crate::protocol::node_addr::NodeAddr;
use crate::transport::Options;

/// What clients connect to, and how. Its debug form leaves out the password.
#[derive(Clone)]
pub(crate) struct ClientConfig(pub(super) Config);

impl ClientConfig {
    /// The configuration of a client of the user.
    pub(crate) fn of(client: &Client) -> Self {
        Self(client.client_config())
    }

    /// Whether it is for a cluster.
    pub(crate) fn is_clustered(&self) -> bool {
        self.0.server.is_clustered()
    }

    /// The server, some nodes of the cluster, or the sentinels.
    pub(crate) fn hosts(&self) -> Vec<NodeAddr> {
        let addr = |server: Server| NodeAddr { host: server.host.to_string(), port: server.port, name: None };
        self.0.server.hosts().into_iter().map(addr).collect()
    }

    /// The configuration for one node of a cluster.
    pub(crate) fn of_node(&self, addr: &NodeAddr) -> Self {
        let mut config = self.0.clone();
        config.server = ServerConfig::Centralized { server: server(addr) };
        // A cluster has one database only.
        config.database = None;
        Self(config)
    }

    /// Returns a function that makes clients, which are not connected yet.
    pub(crate) fn connector(
        &self,
        options: &Options,
    ) -> impl Fn() -> Client + Clone + Send + 'static + use<> {
        let (config, options, attempts) = (self.0.clone(), options.clone(), Arc::new(AtomicUsize::new(0)));
        move || new_client(&rotate_sentinels(&config, attempts.fetch_add(1, Ordering::Relaxed)), &options)
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

fn server(addr: &NodeAddr) -> Server {
    #[cfg(feature = "tls")]
    return Server::new_with_tls(addr.host.as_str(), addr.port, addr.name.clone());
    #[cfg(not(feature = "tls"))]
    Server::new(addr.host.as_str(), addr.port)
}

/// Makes a client that is not connected yet.
fn new_client(config: &Config, options: &Options) -> Client {
    let performance =
        PerformanceConfig { default_command_timeout: options.deadline, ..PerformanceConfig::default() };
    Client::new(config.clone(), Some(performance), Some(connection_config(options)), None)
}

/// Begins with another sentinel at each attempt. fred asks only the first sentinel that accepts a connection, even if that one
/// does not reply, does not know the primary, or names a server that is no longer the primary.
fn rotate_sentinels(config: &Config, attempt: usize) -> Config {
    let mut config = config.clone();
    if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
        let first = attempt % hosts.len().max(1);
        hosts.rotate_left(first);
    }
    config
}

/// One attempt per command, because a script whose reply is lost must not run again. No redirections, because following an ASK
/// ends fred's task. No detection of unresponsive servers, because `liveness` does it.
fn connection_config(options: &Options) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT_TIMEOUT,
        internal_command_timeout: CONNECT_TIMEOUT,
        max_command_attempts: 1,
        max_redirections: 0,
        max_command_buffer_len: options.max_in_flight + EXTRA_COMMANDS,
        tcp: TcpConfig { nodelay: Some(true), ..Default::default() },
        ..Default::default()
    }
}

/// Commands in the buffer besides the calls, such as `SCRIPT LOAD` and `CLUSTER SLOTS`.
const EXTRA_COMMANDS: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
