//! The addresses of a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use axum::http::request::Parts;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ipnet::IpNet;
use portcullis::Limiter;
use portcullis::admin::{Actor, HostList, Refused, has_bearer_token};
use portcullis_cli::admin::token;
use portcullis_rls::HEALTH_NAMES;
use portcullis_server::{Place, Server, Tls};

use super::served::Served;
use crate::service::tls::TlsArguments;

/// Where the service listens, and for whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses")]
pub(super) struct ListenerArguments {
    /// The address of Envoy's rate limit service, or `off`.
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

    /// The address of the admin API, which needs a token.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

    /// The file of the token of the admin API, in place of the environment variable `PORTCULLIS_ADMIN_TOKEN`.
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,

    /// A name by which clients reach the admin API; `localhost`, `127.0.0.1` and `[::1]` by default. May be given several times.
    #[arg(long, value_name = "HOST", requires = "admin")]
    admin_host: Vec<String>,

    /// A network whose proxies are believed what they forward to a check over HTTP; the loopback by default. Their connections, here and over
    /// gRPC, are left alone while connections are short. May be given several times.
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
        [self.grpc.0, self.http.0, self.admin].into_iter().flatten().map(|_| 1).sum()
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
        if let Some(addr) = self.admin {
            server = server.admin(addr, self.admin_router(limiter)?);
        }
        if let Some(tls) = tls {
            server = server.tls(tls);
        }
        if !self.trust.is_empty() {
            server = server.proxies(self.trust.iter().copied());
        }
        Ok(self.allow_unauthenticated.iter().copied().fold(server, Server::allow_unauthenticated))
    }

    fn admin_router(&self, limiter: &Limiter) -> anyhow::Result<axum::Router> {
        let token = token::of_server(self.admin_token_file.as_deref())?;
        let token = token.context(
            "the admin API needs a token: set PORTCULLIS_ADMIN_TOKEN, or give --admin-token-file FILE",
        )?;
        let admin = limiter.admin(move |parts: &Parts| {
            if has_bearer_token(parts, &token) {
                Ok(Actor::new("operator"))
            } else {
                Err(Refused::Unauthenticated)
            }
        });
        let admin =
            if self.admin_host.is_empty() { admin } else { admin.hosts(HostList::new(&self.admin_host)?) };
        Ok(admin.into_router())
    }
}
