//! A proxy that is bound.

use std::net::SocketAddr;
use std::sync::Arc;

use portcullis_server::listener::Listener;

use crate::forward::{ProxyService, Shared};

/// A [`ReverseProxy`](super::ReverseProxy) with an address. Clients connect from now on, and get responses once it serves.
#[derive(Debug)]
#[must_use = "it serves nothing until `serve` is called"]
pub struct BoundProxy {
    listener: Listener,
    shared: Arc<Shared>,
}

impl BoundProxy {
    pub(super) fn new(listener: Listener, shared: Arc<Shared>) -> Self {
        Self { listener, shared }
    }

    /// Returns the address, with its port.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Serves clients until `shutdown` ends, and then what is in progress, for the drain timeout. Returns the number of connections
    /// that were cut off after it.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> u32 {
        let Self { listener, shared } = self;
        listener.serve(ProxyService::new(shared), shutdown).await.cut_off
    }
}
