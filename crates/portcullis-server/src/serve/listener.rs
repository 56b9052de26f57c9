//! Accepts connections: a bounded number of them, each with timeouts, and none is cut off at shutdown before a deadline.

mod activity;
mod connection;
mod options;
mod tracked;
mod watchdog;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::Service;

pub(crate) use options::ListenerOptions;
pub(crate) use tracked::ClientBody;

/// A bound address whose connections are served.
///
/// A connection beyond the limit waits in the queue of the operating system until another one ends. One connection holds at most
/// the header bytes, the windows and the streams of its [`ListenerOptions`].
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    addr: SocketAddr,
    options: ListenerOptions,
}

/// How the connections of a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Drained {
    /// The connections that were closed although a request was in progress, or an upgraded stream open, when the deadline passed.
    pub(crate) cut_off: u32,
}

impl Listener {
    /// Binds an address. Port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub(crate) async fn bind(addr: SocketAddr, options: ListenerOptions) -> io::Result<Self> {
        let socket = TcpListener::bind(addr).await?;
        let addr = socket.local_addr()?;
        Ok(Self { socket, addr, options })
    }

    /// The address that is bound, with its port.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves connections until `shutdown` ends, then drains: the address is released, idle connections are closed, and requests
    /// in progress have until the deadline of the options.
    ///
    /// Each connection has a clone of the service. Requests have `ConnectInfo<SocketAddr>` of Axum in their extensions, with the
    /// address of the peer.
    ///
    /// What a service does not read of a body is discarded.
    pub(crate) async fn serve<S, B>(self, service: S, shutdown: impl Future<Output = ()>) -> Drained
    where
        S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { socket, options, .. } = self;
        let all = options.max_connections;
        let places = Arc::new(Semaphore::new(usize::try_from(all).unwrap_or(Semaphore::MAX_PERMITS)));
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(connection::Shared::new(options));
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let (stream, peer, place) = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&socket, &places) => accepted,
            };
            let service = service.clone();
            connections.spawn(connection::serve(
                stream,
                peer,
                place,
                service,
                shared.clone(),
                stopped.clone(),
            ));
        }
        drop(socket);
        stop.send_replace(true);
        let ended = async {
            while connections.join_next().await.is_some() {}
            // The streams of upgraded connections hold their places as well.
            let _all = places.acquire_many(all).await;
        };
        let is_drained = tokio::time::timeout(shared.options.drain_timeout, ended).await.is_ok();
        let open = u32::try_from(places.available_permits()).unwrap_or(all);
        connections.shutdown().await;
        Drained { cut_off: if is_drained { 0 } else { all.saturating_sub(open) } }
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    socket: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match socket.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Errors of a connection that has ended before it was accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The time until the next attempt when the process has no more descriptors, or memory.
const PAUSE: Duration = Duration::from_millis(500);
