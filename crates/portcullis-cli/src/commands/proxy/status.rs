//! The pages of the status, which need none of the proxy's connections.

use std::net::SocketAddr;

use portcullis::Limiter;
use portcullis_server::{Place, Readiness, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The listener of the status, if there is one.
pub(super) struct Status {
    pub(super) addr: Option<SocketAddr>,
    running: Option<(Readiness, oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Status {
    /// Serves the pages from now on.
    pub(super) async fn bind(limiter: &Limiter, addr: Option<SocketAddr>) -> anyhow::Result<Self> {
        let Some(addr) = addr else { return Ok(Self { addr: None, running: None }) };
        // The pages charge nothing, so that whoever reaches the address may read them.
        let server =
            Server::new(limiter.clone()).metrics()?.status(addr).allow_unauthenticated(Place::Status);
        let readiness = server.readiness().clone();
        let bound = server.bind().await?;
        let addr = bound.addresses().status;
        let (end, ended) = oneshot::channel();
        let running = tokio::spawn(async {
            bound.run(async { drop(ended.await) }).await;
        });
        Ok(Self { addr, running: Some((readiness, end, running)) })
    }

    /// Ends with the signal, after which the proxy is not ready.
    pub(super) fn draining_after(&self, signal: impl Future<Output = ()>) -> impl Future<Output = ()> {
        let readiness = self.running.as_ref().map(|(readiness, ..)| readiness.clone());
        async move {
            signal.await;
            if let Some(readiness) = readiness {
                readiness.set_draining();
            }
        }
    }

    /// Ends the pages.
    pub(super) async fn end(self) {
        if let Some((_, end, running)) = self.running {
            drop(end);
            // It does not panic.
            let _ = running.await;
        }
    }
}
