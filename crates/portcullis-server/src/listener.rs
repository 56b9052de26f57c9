//! Accepts connections: a bounded number of them, each with timeouts, and none is cut off at shutdown before a deadline.
//!
//! Code of our own, because hyper's timeout of heads also ends connections that are kept alive, and neither a first byte that does not come nor
//! HTTP/2; tower-http's timeout of bodies ends no connection whose client reads nothing; and hyper-util's `GracefulShutdown` ends
//! all connections or none, and counts none that are cut off.

mod accepting;
mod activity;
mod connection;
mod open;
mod options;
mod places;
mod tracked;
mod waiting;
mod watchdog;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;

use accepting::accept;

pub use options::{ListenerOptions, Peer, Peers};
pub use places::{Client, Full, Place, Places};
pub use tracked::ClientBody;

/// A bound address whose connections are served.
///
/// A connection beyond the limit waits until another one ends or makes room for it; beyond 64 they wait in the queue of the operating
/// system. One connection holds at most the header bytes, the windows and the streams of its [`ListenerOptions`].
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    addr: SocketAddr,
    options: ListenerOptions,
}

/// How the connections of a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// The connections that were closed although a request was in progress, or an upgraded stream open, when the deadline passed.
    pub cut_off: u32,
}

impl Listener {
    /// Binds an address. Port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub async fn bind(addr: SocketAddr, options: ListenerOptions) -> io::Result<Self> {
        let socket = TcpListener::bind(addr).await?;
        let addr = socket.local_addr()?;
        Ok(Self { socket, addr, options })
    }

    /// The address that is bound, with its port.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves connections until `shutdown` ends, then drains: the address is released, idle connections are closed, and requests
    /// in progress have until the deadline of the options.
    ///
    /// Each connection has a clone of the service. Requests have `ConnectInfo<SocketAddr>` of Axum in their extensions, with the
    /// address of the peer.
    ///
    /// What a service does not read of a body is discarded.
    #[expect(clippy::missing_panics_doc, reason = "the semaphore is never closed")]
    pub async fn serve<S, B>(self, service: S, shutdown: impl Future<Output = ()>) -> Drained
    where
        S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { socket, options, .. } = self;
        let stop = CancellationToken::new();
        let shared = Arc::new(connection::Shared::new(options));
        let waiting = Arc::new(Semaphore::new(MAX_WAITING));
        let next = async || {
            let permit = waiting.clone().acquire_owned().await.expect("it is never closed");
            (accept(&socket).await, permit)
        };
        let mut connections = JoinSet::new();
        {
            let (mut shutdown, mut accepted) = (pin!(shutdown), pin!(next()));
            loop {
                let ((stream, peer), permit) = tokio::select! {
                    biased;
                    () = &mut shutdown => break,
                    Some(_) = connections.join_next() => continue,
                    accepted = &mut accepted => accepted,
                };
                accepted.set(next());
                let (service, shared, stop) = (service.clone(), shared.clone(), stop.clone());
                connections.spawn(connection::serve(stream, peer, permit, service, shared, stop));
            }
        }
        drop(socket);
        let places = &shared.admission.places;
        stop.cancel();
        let ended = async {
            while connections.join_next().await.is_some() {}
            // The streams of upgraded connections hold their places as well.
            loop {
                let freed = places.freed();
                if places.taken() == 0 {
                    return;
                }
                freed.await;
            }
        };
        let is_drained = tokio::time::timeout(shared.options.drain_timeout, ended).await.is_ok();
        let cut_off = places.taken();
        connections.shutdown().await;
        Drained { cut_off: if is_drained { 0 } else { cut_off } }
    }
}

/// The connections that wait for a place at the same time.
const MAX_WAITING: usize = 64;
