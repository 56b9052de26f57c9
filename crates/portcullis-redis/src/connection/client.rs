//! How fred's clients are set up.

use std::time::Duration;

use fred::clients::Client;
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, ServerConfig, TcpConfig};

use super::options::Options;

/// Makes a client that is yet to be connected.
pub(super) fn new_client(config: &Config, options: &Options) -> Client {
    let performance =
        PerformanceConfig { default_command_timeout: options.deadline, ..PerformanceConfig::default() };
    Client::new(config.clone(), Some(performance), Some(connection_config(options)), None)
}

/// Begins with another sentinel at each attempt. fred asks the first that accepts a connection and nobody else, even if that
/// says nothing, does not know the primary, or names a server that is none any more.
pub(super) fn turned(config: &Config, attempt: usize) -> Config {
    let mut config = config.clone();
    if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
        let first = attempt % hosts.len().max(1);
        hosts.rotate_left(first);
    }
    config
}

/// One attempt per command, since a script whose reply is lost must not run again. No redirection, since
/// following an ASK ends the task of fred. No detection of silence, since `liveness` does it.
fn connection_config(options: &Options) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT_TIMEOUT,
        internal_command_timeout: CONNECT_TIMEOUT,
        max_command_attempts: 1,
        max_redirections: 0,
        max_command_buffer_len: options.window + BESIDES,
        tcp: TcpConfig { nodelay: Some(true), ..Default::default() },
        ..Default::default()
    }
}

/// Room for scripts and questions besides the calls.
const BESIDES: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
