//! A server that has its addresses, and its end.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use portcullis::Limiter;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::health::{self, Health};
use super::{Addresses, Limits, Place};
use crate::Readiness;
use crate::listener::Listener;

/// A server that has its addresses. Connections wait until it [runs](Self::run).
#[derive(Debug)]
#[must_use = "a server does nothing until it runs"]
pub struct BoundServer {
    pub(super) limiter: Limiter,
    pub(super) readiness: Readiness,
    pub(super) limits: Limits,
    pub(super) ready_delay: Duration,
    pub(super) ports: Vec<Port>,
    pub(super) addresses: Addresses,
    pub(super) health: Option<Health>,
    pub(super) beside: Option<Beside>,
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) place: Place,
    pub(super) listener: Listener,
    pub(super) router: Router,
}

/// A service that runs beside the listeners, and what ends it.
pub(super) struct Beside {
    stop: CancellationToken,
    service: Pin<Box<dyn Future<Output = u32> + Send>>,
}

impl Beside {
    pub(super) fn new<F>(service: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = u32> + Send + 'static,
    {
        let stop = CancellationToken::new();
        Self { stop: stop.clone(), service: Box::pin(service(stop)) }
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

/// What was lost when a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// The connections that were closed although they had a request in progress, because the drain timeout had passed.
    pub cut_off: u32,
    /// The settlements that were not made. Their reservations stay charged.
    pub unsettled: usize,
}

impl BoundServer {
    /// The addresses, with the ports that the system has chosen.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until `shutdown` ends, then ends in this order: the server is not ready; after the ready delay the addresses of requests
    /// are released and requests in progress are finished; settlements are made; the status pages end last.
    ///
    /// Each step has a deadline, so that it ends within the ready delay and three times the drain timeout.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Finished {
        let (mut stop_requests, stop_status) = (CancellationToken::new(), CancellationToken::new());
        let (mut requests, mut pages) = (JoinSet::new(), JoinSet::new());
        if let Some(Beside { stop, service }) = self.beside {
            stop_requests = stop;
            requests.spawn(service);
        }
        for port in self.ports {
            let is_status = port.place == Place::Status;
            let (tasks, stop) =
                if is_status { (&mut pages, &stop_status) } else { (&mut requests, &stop_requests) };
            let stopped = stop.clone().cancelled_owned();
            tasks.spawn(async { port.listener.serve(port.router, stopped).await.cut_off });
        }
        let mut followed = JoinSet::new();
        if let Some(health) = self.health.clone() {
            health.set_ready(self.readiness.reasons().is_empty()).await;
            followed.spawn(health::follow(health, self.readiness.clone()));
        }
        shutdown.await;
        self.readiness.set_draining();
        if let Some(health) = &self.health {
            health.set_ready(false).await;
        }
        tokio::time::sleep(self.ready_delay).await;
        stop_requests.cancel();
        followed.shutdown().await;
        if let Some(health) = self.health {
            health.end().await;
        }
        let cut_off = requests.join_all().await.into_iter().sum();
        let drained = self.limiter.drain(self.limits.drain()).await;
        stop_status.cancel();
        let _pages = pages.join_all().await;
        Finished { cut_off, unsettled: drained.left }
    }
}
