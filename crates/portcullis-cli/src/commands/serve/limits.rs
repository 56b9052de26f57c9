//! The limits of clients, and the end of the service.

use std::time::Duration;

use clap::Args;
use portcullis_server::{Limits, Server};

use crate::service::readiness::ReadinessArguments;

/// What clients can use of the service, at each of its addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArguments {
    /// Connections at the same time. While less than a quarter is free, a new one closes the one that is idle longest. More wait in the queue
    /// of the operating system.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) max_connections: u32,

    /// Requests at the same time on one connection of HTTP/2.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_streams: u32,

    /// Bytes of the head of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(8_192..=1_048_576))]
    max_header_bytes: u32,

    /// Bytes of the body of a request over HTTP.
    #[arg(long, value_name = "BYTES", default_value_t = 1_048_576)]
    max_body_bytes: usize,

    /// The longest TLS handshake.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = timeout)]
    handshake_timeout: Duration,

    /// The time in which the head of a request arrives.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = timeout)]
    header_timeout: Duration,

    /// How long a connection stays open without a request.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = timeout)]
    idle_timeout: Duration,

    /// How long a request may take, including the time for which a policy lets it wait.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    request_timeout: Duration,

    #[command(flatten)]
    readiness: ReadinessArguments,

    /// How long requests in progress may take after that.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = humantime::parse_duration)]
    drain_timeout: Duration,
}

impl LimitArguments {
    pub(super) fn apply(&self, server: Server) -> Server {
        let limits = Limits::default()
            .max_connections(self.max_connections)
            .max_streams(self.max_streams)
            .max_header_bytes(self.max_header_bytes)
            .max_body_bytes(self.max_body_bytes)
            .handshake_timeout(self.handshake_timeout)
            .header_timeout(self.header_timeout)
            .idle_timeout(self.idle_timeout)
            .request_timeout(self.request_timeout)
            .drain_timeout(self.drain_timeout);
        self.readiness.apply(server.limits(limits))
    }
}

/// A timeout, of which 0 would end everything at once.
fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("a timeout is longer than 0s".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}
