//! When a service is ready.

use std::time::Duration;

use clap::Args;
use portcullis_server::Server;

/// When a service is ready.
#[derive(Debug, Args)]
pub(crate) struct ReadinessArguments {
    /// How long the service accepts requests after a signal, while it already reports that it is not ready.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    ready_delay: Duration,

    /// Is ready even without a connection to the store; failure modes decide then.
    #[arg(long)]
    ready_without_store: bool,
}

impl ReadinessArguments {
    pub(crate) fn apply(&self, server: Server) -> Server {
        server.readiness().set_ready_without_store(self.ready_without_store);
        server.ready_delay(self.ready_delay)
    }
}
