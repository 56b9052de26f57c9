//! The limits of connections and times.

use std::time::Duration;

use clap::Args;
use portcullis::BodyRate;
use portcullis_proxy::ReverseProxy;

/// What clients and the upstream may take.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArguments {
    /// Connections of clients at the same time. While less than a quarter is free, a new one closes the one that is idle longest, and a client
    /// has an equal share, at most a quarter. More wait in the queue of the operating system.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,

    /// Requests and web sockets with the upstream at the same time. While less than a quarter is free, a client has at most an eighth of what is
    /// free, or 8, or half of it if that is less. More are answered with 503.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_requests: u32,

    /// Bytes of the head of a request or response.
    #[arg(long, value_name = "BYTES", default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(8_192..=1_048_576))]
    max_header_bytes: u32,

    /// How long a connection to the upstream may take to open.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    connect_timeout: Duration,

    /// How long the upstream may take for the head of a response once it has the request.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    response_timeout: Duration,

    /// How long a request and its response may be without progress.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    idle_timeout: Duration,

    /// Lets calls of gRPC be silent for longer than 30 s before their responses begin, as subscriptions may be. Any client can claim to make one, and
    /// holds a place of `--max-requests` for `--idle-timeout` then.
    #[arg(long)]
    allow_silent_grpc: bool,

    /// How long a web socket may be without a byte.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    websocket_idle_timeout: Duration,

    /// How long requests and web sockets may go on after a signal.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    drain_timeout: Duration,
}

impl LimitArguments {
    /// The connections of clients and to the upstream, together.
    pub(super) fn connections(&self) -> u64 {
        u64::from(self.max_connections) + u64::from(self.max_requests)
    }

    pub(super) fn apply(&self, proxy: ReverseProxy) -> ReverseProxy {
        let rate = BodyRate::default();
        let rate = if self.allow_silent_grpc { rate.allow_silent_grpc() } else { rate };
        proxy
            .body_rate(rate)
            .max_connections(self.max_connections)
            .max_requests(self.max_requests)
            .max_header_bytes(self.max_header_bytes)
            .connect_timeout(self.connect_timeout)
            .response_timeout(self.response_timeout)
            .idle_timeout(self.idle_timeout)
            .websocket_idle_timeout(self.websocket_idle_timeout)
            .drain_timeout(self.drain_timeout)
    }
}
