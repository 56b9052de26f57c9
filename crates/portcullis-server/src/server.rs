//! The builder of a server.

mod addresses;
mod bodies;
mod descriptors;
mod error;
mod guards;
mod health;
mod limits;
mod running;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use ipnet::IpNet;
use portcullis::admin::{HostError, HostList};
use portcullis::charge::ResponseOutcome;
use portcullis::headers::RateLimitHeaders;
use portcullis::{ClientIp, Limiter, Mistakes, Policy, PolicyExt as _, Quota, RateLimitLayer};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::check::TrustedPeers;
use crate::listener::{Client, Listener, ListenerOptions, Peer};
use crate::pages::{self, Exporter};
use crate::{MetricsError, Readiness, Tls};
use running::{Beside, Port};

pub use addresses::{Addresses, Place};
pub use descriptors::DescriptorFiles;
pub use error::ServeError;
pub use limits::Limits;
pub use running::{BoundServer, Finished};

/// Builds a server around a limiter. See the [crate](crate).
#[derive(Debug)]
#[must_use = "a server does nothing until it is bound and run"]
pub struct Server {
    limiter: Limiter,
    readiness: Readiness,
    grpc: Routes,
    health_names: Vec<String>,
    places: Vec<(Place, SocketAddr, Router)>,
    limits: Limits,
    tls: Option<Tls>,
    unauthenticated: Vec<Place>,
    hosts: HostList,
    proxies: Option<TrustedPeers>,
    ready_delay: Duration,
    exporter: Option<Exporter>,
    beside: Option<Beside>,
}

impl Server {
    /// A server without listeners.
    pub fn new(limiter: Limiter) -> Self {
        let readiness = Readiness::new(&limiter);
        Self {
            limiter,
            readiness,
            grpc: Routes::default(),
            health_names: Vec::new(),
            places: Vec::new(),
            limits: Limits::default(),
            tls: None,
            unauthenticated: Vec::new(),
            hosts: HostList::default(),
            proxies: None,
            ready_delay: Duration::ZERO,
            exporter: None,
            beside: None,
        }
    }

    /// Serves gRPC services at this address, over HTTP/2 alone. `grpc.health.v1.Health` is added, and reports the [readiness](Self::readiness) of the
    /// whole server, also under the names of services that are given here.
    pub fn grpc(self, addr: SocketAddr, services: Routes, health_names: &[&str]) -> Self {
        let health_names = health_names.iter().map(|name| (*name).to_owned()).collect();
        Self { grpc: services, health_names, ..self.place(Place::Grpc, addr, Router::new()) }
    }

    /// Serves checks over HTTP at this address, with the pages of the [status](Self::status), whose paths `checks` must not have.
    pub fn http(self, addr: SocketAddr, checks: Router) -> Self {
        self.place(Place::Http, addr, checks)
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` at this address, always without TLS, for probes that have no certificate.
    ///
    /// `/healthz` is 200 as long as the process answers. `/readyz` is 200, or 503 with the [reasons](crate::NotReady) as JSON; `rules_refused` in it says
    /// whether the last rules were [refused](Readiness::has_refused_rules).
    pub fn status(self, addr: SocketAddr) -> Self {
        self.place(Place::Status, addr, Router::new())
    }

    /// Serves the router of `Limiter::admin` at this address. On a loopback address it has no TLS, for `portcullis admin`.
    ///
    /// After 10 answers 401, an address (of IPv6 a /64) gets 429 whatever it sends; one more attempt is free every 6 s. Addresses beyond 250 000
    /// share their attempts.
    pub fn admin(self, addr: SocketAddr, router: Router) -> Self {
        self.place(Place::Admin, addr, router)
    }

    /// Runs another service as well, such as a proxy, which has a listener of its own. Its token is cancelled at shutdown after the
    /// [delay](Self::ready_delay). It then drains, and returns how many connections it has cut off. The pages of the status end after it.
    pub fn beside<F>(self, service: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = u32> + Send + 'static,
    {
        Self { beside: Some(Beside::new(service)), ..self }
    }

    fn place(mut self, place: Place, addr: SocketAddr, router: Router) -> Self {
        self.places.retain(|(other, ..)| *other != place);
        self.places.push((place, addr, router));
        self
    }

    /// Sets what clients can use.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Serves gRPC, HTTP, and the admin API beyond loopback, over TLS only.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Accepts clients of other machines at this listener that show no certificate: everything that reaches the address can use it.
    pub fn allow_unauthenticated(mut self, place: Place) -> Self {
        self.unauthenticated.push(place);
        self
    }

    /// Sets further hosts that requests of this machine may name over HTTP/1 without TLS, beside `localhost` and the addresses of the loopback. Others are
    /// answered with 421, except to checks, whose headers are those of clients: they may be names of a site that lead to this machine, so
    /// that its pages could read what the server answers.
    ///
    /// # Errors
    ///
    /// Each that is no host.
    pub fn http_hosts<H: AsRef<str>>(
        self,
        hosts: impl IntoIterator<Item = H>,
    ) -> Result<Self, Mistakes<HostError>> {
        Ok(Self { hosts: HostList::new(hosts)?, ..self })
    }

    /// Names the networks of the proxies that ask: their connections are left alone while connections are short. By default none is named, and
    /// those that ask from the loopback are only no clients.
    ///
    /// While less than a quarter of the [connections](Limits::max_connections) of a listener is free, a new one closes the one that is idle
    /// longest, and a client has an equal share of them, at most a quarter. If none is free, a client within its share gets one of a client beyond its own. A
    /// client is an address, of IPv6 a /64.
    pub fn proxies(self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self { proxies: Some(TrustedPeers::networks(networks)), ..self }
    }

    /// Sets for how long the server still takes requests at shutdown after it has become not ready, so that load balancers notice
    /// first; zero by default.
    pub fn ready_delay(self, delay: Duration) -> Self {
        Self { ready_delay: delay, ..self }
    }

    /// Counts for `/metrics` what the limiter does from now on. The recorder of the `metrics` facade is installed for the whole process.
    ///
    /// # Errors
    ///
    /// If the process has a recorder already.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn metrics(self) -> Result<Self, MetricsError> {
        let exporter = Exporter::install()?;
        Ok(Self { limiter: self.limiter.metrics(), exporter: Some(exporter), ..self })
    }

    /// What the server reports at `/readyz` and over gRPC.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Binds all addresses.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound; [`ServeError::Exposed`] if it is not a loopback address, clients need no certificate, and this
    /// is not [allowed](Self::allow_unauthenticated).
    pub async fn bind(self) -> Result<BoundServer, ServeError> {
        if self.places.is_empty() && self.beside.is_none() {
            return Err(ServeError::NoListener);
        }
        for (place, addr, _) in &self.places {
            self.allows(*place, *addr)?;
        }
        let mut ports = Vec::new();
        let mut addresses = Addresses::default();
        let mut reports = None;
        for (place, addr, router) in &self.places {
            let options = self.options(*place, *addr);
            let listener = Listener::bind(*addr, options).await;
            let listener =
                listener.map_err(|error| ServeError::Bind { place: *place, addr: *addr, error })?;
            addresses.set(*place, listener.local_addr());
            let status = || pages::router(&self.readiness, &self.limiter, self.exporter.as_ref());
            let router = match place {
                Place::Grpc => {
                    let (router, health) = health::with_health(self.grpc.clone(), &self.health_names).await;
                    reports = Some(health);
                    pages::only_grpc(router)
                }
                Place::Http | Place::Status => {
                    let router = router.clone().merge(status());
                    if self.uses_tls(*place, *addr) { router } else { pages::only_hosts(router, &self.hosts) }
                }
                Place::Admin => router.clone().layer(admin_failures()),
            };
            let router = guards::guarded(router, *place, &self.limits);
            ports.push(Port { place: *place, listener, router });
        }
        let Self { limiter, readiness, limits, ready_delay, beside, .. } = self;
        Ok(BoundServer { limiter, readiness, limits, ready_delay, ports, addresses, health: reports, beside })
    }

    fn uses_tls(&self, place: Place, addr: SocketAddr) -> bool {
        let is_plain = place == Place::Status || place == Place::Admin && addr.ip().is_loopback();
        self.tls.is_some() && !is_plain
    }

    fn allows(&self, place: Place, addr: SocketAddr) -> Result<(), ServeError> {
        let is_mutual =
            self.tls.as_ref().is_some_and(Tls::needs_client_certificates) && self.uses_tls(place, addr);
        let is_allowed = addr.ip().is_loopback() || is_mutual || self.unauthenticated.contains(&place);
        if is_allowed { Ok(()) } else { Err(ServeError::Exposed { place, addr }) }
    }

    fn options(&self, place: Place, addr: SocketAddr) -> ListenerOptions {
        let proxies = self.proxies.clone();
        let tls = self.tls.clone().filter(|_| self.uses_tls(place, addr));
        let peers = Arc::new(move |peer| kind(proxies.as_ref(), place, peer));
        ListenerOptions { tls, peers, ..self.limits.listener(place) }
    }
}

/// What a peer is. Many clients may be behind whoever asks.
fn kind(proxies: Option<&TrustedPeers>, place: Place, peer: IpAddr) -> Peer {
    let is_asked = matches!(place, Place::Grpc | Place::Http);
    match proxies {
        Some(proxies) if is_asked && proxies.contains(peer) => Peer::Proxy,
        None if is_asked && TrustedPeers::loopback().contains(peer) => Peer::Caller,
        _ => Peer::Client(Client::at(peer)),
    }
}

/// Bounds how often a token can be guessed. It has a store of its own, so that what the server limits leaves it alone. Only requests
/// with a token count. Otherwise a web page could send requests without one from the operator's browser until the operator is locked out.
fn admin_failures() -> RateLimitLayer {
    let is_refused = |outcome: &ResponseOutcome<'_>| outcome.status() == StatusCode::UNAUTHORIZED;
    let failures = Policy::token_bucket("admin-failures", Quota::per_minute(10));
    let layer = Limiter::memory().layer(failures.by(ClientIp::peer()).charge_when(is_refused));
    let layer = layer.except(|parts: &Parts| !parts.headers.contains_key(AUTHORIZATION));
    layer.headers(RateLimitHeaders::NONE)
}

#[cfg(test)]
mod tests;
