//! The admin API of a service.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use axum::http::request::Parts;
use clap::Args;
use portcullis::Limiter;
use portcullis::admin::{Actor, HostList, Refused, has_bearer_token};
use portcullis_cli::admin::token;
use portcullis_server::Server;

/// Where the admin API is, and for whom.
#[derive(Debug, Args)]
pub(crate) struct AdminArguments {
    /// The address of the admin API and its live page, which need a token.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<SocketAddr>,

    /// The file of the token of the admin API, in place of the environment variable `PORTCULLIS_ADMIN_TOKEN`.
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,

    /// A name by which clients reach the admin API; `localhost`, `127.0.0.1` and `[::1]` by default. May be given several times.
    #[arg(long, value_name = "HOST", requires = "admin")]
    admin_host: Vec<String>,
}

impl AdminArguments {
    /// The server with the admin API of the limiter, if it has an address.
    pub(crate) fn apply(&self, server: Server, limiter: &Limiter) -> anyhow::Result<Server> {
        let Some(addr) = self.admin else { return Ok(server) };
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
        Ok(server.admin(addr, admin.into_router()))
    }
}
