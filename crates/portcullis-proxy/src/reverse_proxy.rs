//! The builder of a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::uri::Authority;
use portcullis::rules::{Door, LiveRules, NoRules, RulesRequirement};
use portcullis::{BodyRate, LayerError, Limiter};
use portcullis_server::Tls;
use portcullis_server::listener::{Client, Listener, ListenerOptions, Peer, Places};

use crate::forward::{Failures, Host, Shared, pseudonym};
use crate::running::BoundProxy;
use crate::upstream::{Pool, Timeouts, Upstream};

/// A reverse proxy: one upstream, and the rules of a limiter in front of it.
///
/// ```
/// use std::future::ready;
///
/// use portcullis::Limiter;
/// use portcullis::rules::{Format, Loader, Rules};
/// use portcullis_proxy::{ReverseProxy, Upstream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Usually `Loader::file("limits.toml")`.
/// let limits = Loader::text("limits.toml", Format::Toml, r#"
///     [policy.all]
///     strategy = "gcra"
///     quota = "50/s burst 100"
///     key = "client_ip"
/// "#);
/// let limiter = Limiter::memory().with_rules(Rules::load(&limits)?)?;
/// let proxy = ReverseProxy::new(&limiter, Upstream::new("http://127.0.0.1:3000")?)?;
/// let bound = proxy.bind("127.0.0.1:0".parse()?).await?;
/// assert!(bound.local_addr().ip().is_loopback());
/// assert_eq!(bound.serve(ready(())).await, 0, "nothing was cut off");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ReverseProxy {
    rules: LiveRules,
    requirement: RulesRequirement,
    upstream: Upstream,
    host: Host,
    timeouts: Timeouts,
    max_requests: u32,
    max_header_bytes: u32,
    is_tls: bool,
    listener: ListenerOptions,
}

/// Why there is no proxy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The limiter has no rules: see [`Limiter::with_rules`].
    #[error(transparent)]
    NoRules(#[from] NoRules),
    /// The rules need more than a proxy has.
    #[error(transparent)]
    Rules(#[from] LayerError),
    /// An `https://` upstream without [`Upstream::tls`].
    #[error("an https:// upstream needs the roots of its certificate")]
    NoRoots,
    /// A text that is not a host with an optional port.
    #[error("{host:?} is not a host")]
    Host {
        /// The text.
        host: String,
    },
}

impl ReverseProxy {
    /// A proxy in front of an upstream, with the limits in the tables of the documentation.
    ///
    /// As long as it exists, rules that a proxy cannot apply are refused, also by a reload.
    ///
    /// # Errors
    ///
    /// If the limiter has no rules, if a proxy cannot apply them, or if an `https://` upstream has no roots.
    pub fn new(limiter: &Limiter, upstream: Upstream) -> Result<Self, ProxyError> {
        let rules = limiter.rules()?.clone();
        if !upstream.is_complete() {
            return Err(ProxyError::NoRoots);
        }
        let requirement = rules.require_usable_by(Door::Proxy)?;
        let timeouts = Timeouts {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(60),
            idle: Duration::from_secs(300),
            tunnel_idle: Duration::from_secs(3_600),
            pool_idle: Duration::from_secs(20),
        };
        let (host, listener) = (Host::Client, ListenerOptions::default());
        let (max_requests, max_header_bytes) = (1_024, 32 * 1_024);
        Ok(Self {
            rules,
            requirement,
            upstream,
            host,
            timeouts,
            max_requests,
            max_header_bytes,
            is_tls: false,
            listener,
        })
    }

    /// Sends the host of the upstream's URL instead of that which the client has written.
    pub fn upstream_host(self) -> Self {
        Self { host: Host::Upstream, ..self }
    }

    /// Sends this host instead of that which the client has written.
    ///
    /// # Errors
    ///
    /// If it is not a host with an optional port.
    pub fn host(self, host: &str) -> Result<Self, ProxyError> {
        let is_host = !host.contains('@') && host.parse::<Authority>().is_ok();
        match HeaderValue::from_str(host) {
            Ok(host) if is_host => Ok(Self { host: Host::Fixed(host), ..self }),
            _ => Err(ProxyError::Host { host: host.to_owned() }),
        }
    }

    /// How long a connection to the upstream may take to open, with its TLS handshake. 5 s by default; then 504.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self
    }

    /// How long the upstream may take for the head of its response after it has the whole request. 60 s by default; then 504.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.response = timeout;
        self
    }

    /// How long a request and its response may be without progress in both directions. 5 min by default; then 408 or 504, or the
    /// end of the connection if the response has begun.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.idle = timeout;
        self
    }

    /// The smallest rate at which clients send the bodies of their requests; 1 920 bytes in 30 s by default. A slower body
    /// is 408, or the end of the stream if the response has begun. Only the time counts in which the upstream reads.
    pub fn body_rate(mut self, rate: BodyRate) -> Self {
        self.listener.body_rate = rate;
        self
    }

    /// How long a web socket may be without a byte in both directions. 1 h by default.
    pub fn websocket_idle_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.tunnel_idle = timeout;
        self
    }

    /// The requests and web sockets that are with the upstream at the same time; at least 1, and 1024 by default. Further ones are
    /// answered with 503. While less than a quarter of these places is free, a client has at most an eighth of those that are, or
    /// 8, or half of them if that is less.
    pub fn max_requests(mut self, requests: u32) -> Self {
        self.max_requests = requests.max(1);
        self
    }

    /// The connections of clients at the same time; at least 1, and 1024 by default. Further ones wait in the queue of the system.
    ///
    /// While less than a quarter of these places is free, a new connection closes the one that is idle longest, and a client has an equal share, at most a quarter.
    /// If none is free, a client within its share gets one of a client beyond its own. A client is an address, or its network by the rules.
    /// Connections of proxies that the rules trust are left alone.
    pub fn max_connections(mut self, connections: u32) -> Self {
        self.listener.max_connections = connections;
        self
    }

    /// The bytes of the head of a request, and of that of a response; at least 8 192, and 32 768 by default.
    pub fn max_header_bytes(mut self, bytes: u32) -> Self {
        self.max_header_bytes = bytes.max(8 * 1_024);
        self.listener.max_header_bytes = bytes;
        self
    }

    /// How long requests and web sockets may go on at shutdown. 30 s by default.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.listener.drain_timeout = timeout;
        self
    }

    /// Serves clients by TLS only. The upstream then sees `https` in the forwarding fields.
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.listener.tls = Some(tls.clone());
        self.is_tls = true;
        self
    }

    /// Binds an address. Port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub async fn bind(self, addr: SocketAddr) -> io::Result<BoundProxy> {
        // The proxy's own limits answer the client, so they end first.
        let stalled = self.timeouts.idle.max(self.timeouts.response).max(self.timeouts.connect) * 2;
        let rules = self.rules.clone();
        let peers = move |peer: IpAddr| {
            let rules = rules.current();
            let clients = rules.client_ip();
            if clients.trusts(peer) { Peer::Proxy } else { Peer::Client(Client::of(clients, peer)) }
        };
        let options = ListenerOptions {
            stall_timeout: stalled.max(Duration::from_secs(60)),
            peers: Arc::new(peers),
            ..self.listener.clone()
        };
        let listener = Listener::bind(addr, options).await?;
        Ok(BoundProxy::new(listener, self.into_shared()))
    }

    fn into_shared(self) -> Arc<Shared> {
        let Self {
            rules, requirement, upstream, host, timeouts, max_requests, max_header_bytes, is_tls, ..
        } = self;
        let header_bytes = usize::try_from(max_header_bytes).unwrap_or(usize::MAX);
        let (upstream_host, upstream_scheme) = (upstream.host(), upstream.scheme());
        Arc::new(Shared {
            rules,
            _requirement: requirement,
            pool: Arc::new(Pool::new(upstream, MAX_IDLE, timeouts.pool_idle, header_bytes, max_requests)),
            requests: Places::of_requests(max_requests),
            timeouts,
            host,
            upstream_host,
            upstream_scheme,
            scheme: if is_tls { "https" } else { "http" },
            pseudonym: pseudonym(),
            failures: Failures::new(),
        })
    }
}

/// Open connections of HTTP/1.1 without a request.
const MAX_IDLE: usize = 64;
