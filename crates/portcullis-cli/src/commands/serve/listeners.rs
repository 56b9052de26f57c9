//! The addresses of a service.

use std::net::SocketAddr;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ipnet::IpNet;
use portcullis::Limiter;
use portcullis_rls::HEALTH_NAMES;
use portcullis_server::{Place, Server, Tls};

use super::served::Served;
use crate::service::admin::AdminArguments;
use crate::service::tls::TlsArguments;

/// Where the service listens, and for whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses")]
pub(super) struct ListenerArguments {
    /// The address of Envoy's rate limit service, or `off`. Without it, native rules have no `/json` either, and may use what calls of Envoy do not have.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    grpc: Listen,

    /// The address of checks over HTTP, `/json`, `/healthz`, `/readyz` and `/metrics`, or `off`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: Listen,

    /// A name by which clients of this machine reach `/json`, `/metrics`, `/healthz` and `/readyz`, beside `localhost` and the addresses of the
    /// loopback. May be given several times.
    #[arg(long, value_name = "HOST")]
    http_host: Vec<String>,

    /// A further address of `/healthz`, `/readyz` and `/metrics` alone, never over TLS.
    #[arg(long, value_name = "ADDRESS")]
    status: Option<SocketAddr>,

    #[command(flatten)]
    admin: AdminArguments,

    /// A network of proxies whose forwarding headers are believed in checks over HTTP; the loopback by default. Their idle connections,
    /// here and over gRPC, are not closed to make room. May be given several times.
    #[arg(long, value_name = "NETWORK")]
    pub(super) trust: Vec<IpNet>,

    #[command(flatten)]
    pub(super) tls: TlsArguments,

    /// Accepts clients of other machines without a certificate at these addresses, separated by commas.
    #[arg(long, value_name = "LISTENER", value_delimiter = ',', value_parser = place())]
    allow_unauthenticated: Vec<Place>,
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
struct Listen(Option<SocketAddr>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self(None)),
            text => text.parse().map(|addr| Self(Some(addr))).map_err(|_| EXPECTED.to_owned()),
        }
    }
}

const EXPECTED: &str = "an address is written as 127.0.0.1:8081 or [::1]:8081, or `off`";

fn place() -> impl TypedValueParser<Value = Place> {
    PossibleValuesParser::new(["grpc", "http", "status", "admin"]).map(|name| match name.as_str() {
        "grpc" => Place::Grpc,
        "http" => Place::Http,
        "status" => Place::Status,
        _ => Place::Admin,
    })
}

impl ListenerArguments {
    /// The addresses with connections of `--max-connections`: all but that of the status.
    pub(super) fn count(&self) -> u64 {
        [self.grpc.0, self.http.0, self.admin.admin].into_iter().flatten().map(|_| 1).sum()
    }

    pub(super) fn has_grpc(&self) -> bool {
        self.grpc.0.is_some()
    }

    pub(super) fn has_http(&self) -> bool {
        self.http.0.is_some()
    }

    pub(super) fn server(
        &self,
        limiter: &Limiter,
        tls: Option<Tls>,
        protocols: &Served,
    ) -> anyhow::Result<Server> {
        let mut server = Server::new(limiter.clone()).metrics()?.http_hosts(&self.http_host)?;
        if let Some(addr) = self.grpc.0 {
            server = server.grpc(addr, protocols.grpc()?, &HEALTH_NAMES);
        }
        if let Some(addr) = self.http.0 {
            server = server.http(addr, protocols.http());
        }
        if let Some(addr) = self.status {
            server = server.status(addr);
        }
        server = self.admin.apply(server, limiter)?;
        if let Some(tls) = tls {
            server = server.tls(tls);
        }
        if !self.trust.is_empty() {
            server = server.proxies(self.trust.iter().copied());
        }
        Ok(self.allow_unauthenticated.iter().copied().fold(server, Server::allow_unauthenticated))
    }
}
