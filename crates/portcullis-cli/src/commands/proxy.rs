//! `portcullis proxy`: a reverse proxy with limits.

mod limits;
mod listeners;
mod target;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use http::HeaderName;
use portcullis::key::{Networks, Trust};
use portcullis::rules::{Door, Loader, Rules, Watch, WatchOptions};
use portcullis::{ClientIp, Limiter};
use portcullis_cli::findings;
use portcullis_proxy::ReverseProxy;
use portcullis_server::Addresses;
use serde_json::json;

use crate::service::log::LogArguments;
use crate::service::signals::Signals;
use crate::service::store::StoreArguments;
use crate::service::tls::TlsArguments;
use crate::service::{self, descriptors, documents};

/// Forwards requests to an upstream, and limits them by rules before that.
///
/// Rules are reloaded when their file changes, and at SIGHUP. With a store in Redis, the signed document of `[remote]` changes them too. At
/// SIGTERM and SIGINT the proxy finishes the requests and web sockets in progress, and ends; at a second signal it ends at once. The first line of standard output is a JSON object with the
/// address; the log goes to standard error.
///
/// Exits with 0 after it has finished all requests, with 1 if the rules have errors, a request was cut off, a settlement was not made or a second signal came, and
/// with 2 for invalid arguments, or if it cannot start.
#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Rules in TOML, YAML or JSON.
    #[arg(value_name = "RULES")]
    rules: PathBuf,

    #[command(flatten)]
    target: target::TargetArguments,

    /// The address of the proxy.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    #[command(flatten)]
    listeners: listeners::ListenerArguments,

    #[command(flatten)]
    store: StoreArguments,

    /// A network of proxies in front of this one, such as 10.0.0.0/8. Their header is believed by the rules, and forwarded. Without this
    /// option the table `[client_ip]` of the rules names them; with both the rules are refused. May be given several times.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    trust: Vec<String>,

    /// The header that the proxies of `--trust` write: `x-forwarded-for`, `forwarded`, or a header with one address.
    #[arg(long, value_name = "NAME", default_value = "x-forwarded-for", requires = "trust")]
    client_header: String,

    #[command(flatten)]
    tls: TlsArguments,

    #[command(flatten)]
    limits: limits::LimitArguments,

    #[command(flatten)]
    log: LogArguments,
}

impl Proxy {
    /// Serves until a signal arrives. Returns whether everything was finished.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        service::run(self.log.clone(), self.serve())
    }

    async fn serve(self) -> anyhow::Result<bool> {
        let signals = Signals::new().context("cannot handle signals")?;
        descriptors::raise(self.limits.connections(), "--max-connections and --max-requests");
        let upstream = self.target.upstream()?;
        let tls = self.tls.read()?;
        let Some(rules) = self.load()? else { return Ok(false) };
        let (limiter, store) = self.store.limiter(Some(rules)).await?;
        let proxy = ReverseProxy::new(&limiter, upstream)?;
        let proxy = self.limits.apply(self.target.apply(proxy)?);
        let proxy = if let Some(tls) = &tls { proxy.tls(tls) } else { proxy };
        // Its metrics count what is refused of the rules from the first look on.
        let server = self.listeners.server(&limiter, tls)?;
        let _document = documents::follow(&limiter, store, &self.rules)?;
        let _watch = match limiter.rules().ok() {
            Some(live) => Some(Watch::start(live, WatchOptions::new())?),
            None => None,
        };
        let bound = proxy.bind(self.listen).await.with_context(|| self.listen.to_string())?;
        let addr = bound.local_addr();
        let server = server.beside(|stop| bound.serve(stop.cancelled_owned()));
        let server = server.bind().await.map_err(service::with_flag)?;
        self.announce(addr, &limiter, server.addresses());
        let finished = server.run(signals.shutdown()).await;
        Ok(service::report(finished))
    }

    /// The rules, with findings on standard error. `None` if they have errors.
    fn load(&self) -> anyhow::Result<Option<Rules>> {
        let loader = Loader::file(&self.rules).for_door(Door::Proxy);
        let loader = match self.clients()? {
            Some(clients) => loader.client_ip(clients),
            None => loader,
        };
        Ok(findings::usable_by_service(Rules::load(&loader), Rules::warnings)?)
    }

    /// The clients by the flags. `None` without them.
    fn clients(&self) -> anyhow::Result<Option<ClientIp>> {
        if self.trust.is_empty() {
            return Ok(None);
        }
        let proxies = ClientIp::behind(Trust::networks(Networks::new(&self.trust)?));
        Ok(Some(match self.client_header.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => proxies.x_forwarded_for(),
            "forwarded" => proxies.forwarded(),
            name => proxies.header(&name.parse::<HeaderName>().with_context(|| format!("{name:?}"))?),
        }))
    }

    fn announce(&self, proxy: SocketAddr, limiter: &Limiter, others: Addresses) {
        let header = limiter.rules().ok().and_then(|live| live.current().client_ip().header().cloned());
        if header.is_none() {
            tracing::info!(
                "no proxy is named, so the peer is the client: behind a proxy, name its network by --trust or [client_ip]"
            );
        }
        let started = json!({
            "proxy": proxy,
            "status": others.status,
            "admin": others.admin,
            "client": header.as_ref().map_or("peer", |header| header.as_str()),
            "upstream": self.target.upstream,
        });
        service::announce(started, &self.rules, &self.store);
    }
}
