//! `portcullis serve`: the rate limiter as a service of its own.

mod limits;
mod listeners;
mod rules;
mod served;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use portcullis_server::BoundServer;
use serde_json::json;

use crate::service::log::LogArguments;
use crate::service::signals::Signals;
use crate::service::store::StoreArguments;
use crate::service::{self, descriptors, documents};
use rules::Limits;

/// Limits the requests of proxies and services that ask it: Envoy's rate limit service over gRPC, and checks over HTTP.
///
/// Rules are reloaded when their file changes, and at SIGHUP. With a store in Redis, the signed document of `[remote]` changes them too. At
/// SIGTERM and SIGINT the service becomes not ready, finishes the requests in progress, and ends; at a second signal it ends at once. The first line of standard output is a JSON object
/// with the addresses; the log goes to standard error.
///
/// Exits with 0 after it has finished all requests, with 1 if the rules have errors, a request was cut off, a settlement was not made or a second signal came, and
/// with 2 for invalid arguments, or if it cannot start.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Rules in TOML, YAML or JSON, a descriptor file of Envoy's rate limit service, or a folder of such files.
    #[arg(value_name = "RULES")]
    rules: PathBuf,

    #[command(flatten)]
    source: rules::RulesArguments,

    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    listeners: listeners::ListenerArguments,

    #[command(flatten)]
    limits: limits::LimitArguments,

    #[command(flatten)]
    log: LogArguments,
}

impl Serve {
    /// Serves until a signal arrives. Returns whether everything was finished.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        service::run(self.log.clone(), self.serve())
    }

    async fn serve(self) -> anyhow::Result<bool> {
        let signals = Signals::new().context("cannot handle signals")?;
        descriptors::raise(
            self.listeners.count() * u64::from(self.limits.max_connections),
            "--max-connections",
        );
        // Before the store is connected, which may take a second: mistakes of the operator are found first.
        let Some(limits) = Limits::load(&self.rules, &self.source, &self.listeners)? else {
            return Ok(false);
        };
        let tls = self.listeners.tls.read()?;
        let (limiter, store) = self.store.limiter(limits.rules()).await?;
        let Some(protocols) = limits.serve(&self.source, &limiter, &self.listeners) else {
            return Ok(false);
        };
        let server = self.listeners.server(&limiter, tls, &protocols)?;
        let server = self.limits.apply(server);
        let _document = documents::follow(&limiter, store, &self.rules)?;
        let _following = protocols.follow(server.readiness(), self.source.poll())?;
        let server = server.bind().await.map_err(service::with_flag)?;
        self.announce(&server, protocols.format());
        let finished = server.run(signals.shutdown()).await;
        Ok(service::report(finished))
    }

    fn announce(&self, server: &BoundServer, format: &str) {
        let addresses = server.addresses();
        let started = json!({
            "grpc": addresses.grpc,
            "http": addresses.http,
            "status": addresses.status,
            "admin": addresses.admin,
            "format": format,
        });
        service::announce(started, &self.rules, &self.store);
    }
}
