//! The listeners beside that of the proxy, which need none of its connections.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use portcullis::Limiter;
use portcullis_server::{Limits, Place, Server, Tls};

use crate::service::admin::AdminArguments;
use crate::service::readiness::ReadinessArguments;

/// Where probes and operators ask.
#[derive(Debug, Args)]
pub(super) struct ListenerArguments {
    /// An address of `/healthz`, `/readyz` and `/metrics`, never over TLS, with connections of its own. None by default: paths at the address of
    /// the proxy are those of the upstream.
    #[arg(long, value_name = "ADDRESS")]
    status: Option<SocketAddr>,

    /// A name by which clients of this machine reach the pages of the status, beside `localhost` and the addresses of the loopback. May be given
    /// several times.
    #[arg(long, value_name = "HOST", requires = "status")]
    http_host: Vec<String>,

    #[command(flatten)]
    admin: AdminArguments,

    /// Accepts clients of other machines without a certificate at this address.
    #[arg(long, value_name = "LISTENER", requires = "admin", value_parser = place())]
    allow_unauthenticated: Option<Place>,

    #[command(flatten)]
    readiness: ReadinessArguments,
}

fn place() -> impl TypedValueParser<Value = Place> {
    PossibleValuesParser::new(["admin"]).map(|_| Place::Admin)
}

impl ListenerArguments {
    pub(super) fn server(&self, limiter: &Limiter, tls: Option<Tls>) -> anyhow::Result<Server> {
        let limits = Limits::default().max_connections(MAX_CONNECTIONS).drain_timeout(DRAIN_TIMEOUT);
        let server = Server::new(limiter.clone()).limits(limits).http_hosts(&self.http_host)?;
        let mut server = self.readiness.apply(server);
        if let Some(addr) = self.status {
            // The pages charge nothing, so that whoever reaches the address may read them.
            server = server.metrics()?.status(addr).allow_unauthenticated(Place::Status);
        }
        server = self.admin.apply(server, limiter)?;
        if let Some(tls) = tls {
            server = server.tls(tls);
        }
        Ok(self.allow_unauthenticated.into_iter().fold(server, Server::allow_unauthenticated))
    }
}

/// As many as probes and operators need.
const MAX_CONNECTIONS: u32 = 64;

/// The time of requests to the admin API after the signal, and for corrections after the last response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
