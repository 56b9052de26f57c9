//! Configures fred's clients.

use std::time::Duration;

use ::fred::clients::Client;
use ::fred::types::config::{Config, ConnectionConfig, PerformanceConfig, ServerConfig, TcpConfig};

use crate::transport::Options;

/// Makes a client that is not connected yet.
pub(crate) fn new_client(config: &Config, options: &Options) -> Client {
    let performance =
        PerformanceConfig { default_command_timeout: options.deadline, ..PerformanceConfig::default() };
    Client::new(config.clone(), Some(performance), Some(connection_config(options)), None)
}

/// Begins with another sentinel at each attempt. fred asks only the first sentinel that accepts a connection, even if that one
/// does not reply, does not know the primary, or names a server that is no longer the primary.
pub(crate) fn rotate_sentinels(config: &Config, attempt: usize) -> Config {
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
