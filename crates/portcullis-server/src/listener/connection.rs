//! One connection, from its handshake to its end.

use std::error::Error;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::accepting::{Admission, Held};
use super::activity::{Observed, Version};
use super::open::Listed;
use super::options::ListenerOptions;
use super::places::Places;
use super::tracked::{ClientBody, Tracked};
use super::waiting::WaitingConnections;
use super::watchdog::{Step, Watchdog};

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) options: ListenerOptions,
    pub(super) admission: Admission,
    protocol: auto::Builder<TokioExecutor>,
    acceptor: Option<TlsAcceptor>,
}

impl Shared {
    pub(super) fn new(options: ListenerOptions) -> Self {
        let admission = Admission {
            places: Places::of_connections(options.max_connections.max(1)),
            open: Arc::default(),
            waiting: WaitingConnections::default(),
            peers: options.peers.clone(),
        };
        let acceptor = options.tls.as_ref().map(|tls| TlsAcceptor::from(tls.config()));
        Self { protocol: options.protocol(), acceptor, admission, options }
    }
}

/// Serves a connection, once it has a place, until it ends: by the peer, a timeout, or `stop` and the requests in progress.
pub(super) async fn serve<S, B>(
    stream: TcpStream,
    peer: SocketAddr,
    permit: OwnedSemaphorePermit,
    service: S,
    shared: Arc<Shared>,
    stop: CancellationToken,
) where
    S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Without it a response of two writes waits for the peer's acknowledgement. A socket that refuses it has ended.
    let _ = stream.set_nodelay(true);
    let admitted = tokio::select! {
        admitted = shared.admission.admit(peer.ip(), permit) => admitted,
        () = stop.cancelled() => return,
    };
    let Some(Held { place, activity, listed }) = admitted else {
        return tracing::debug!(
            "a connection is closed whose client has its share of them, or of those that wait"
        );
    };
    let service = Tracked { service, peer, body_rate: shared.options.body_rate, activity: activity.clone() };
    let Some(acceptor) = &shared.acceptor else {
        return drive(Observed::new(stream, activity, place), service, &shared, listed, stop).await;
    };
    let handshake = tokio::time::timeout(shared.options.handshake_timeout, acceptor.accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = stop.cancelled() => return,
        () = closes(listed.as_ref()) => return tracing::debug!("a TLS handshake has made room"),
    };
    match shaken {
        Ok(Ok(stream)) => drive(Observed::new(stream, activity, place), service, &shared, listed, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake has failed"),
        Err(_) => tracing::debug!("a TLS handshake has taken too long"),
    }
}

/// Returns when a connection has to make room: never if it is not listed.
async fn closes(listed: Option<&Listed>) {
    match listed {
        Some(listed) => listed.closes().await,
        None => pending().await,
    }
}

async fn drive<I, S, B>(
    io: Observed<I>,
    service: Tracked<S>,
    shared: &Shared,
    listed: Option<Listed>,
    stop: CancellationToken,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let activity = service.activity.clone();
    let mut watchdog = Watchdog::new(activity.clone(), listed.is_none());
    let mut connection = pin!(shared.protocol.serve_connection_with_upgrades(TokioIo::new(io), service));
    let interval = Watchdog::interval(&shared.options);
    let mut looked = Instant::now();
    let mut timer = pin!(tokio::time::sleep_until(looked + interval));
    let (mut is_stopping, mut makes_room) = (false, false);
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection has failed");
                }
                return;
            }
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                watchdog.closes();
                connection.as_mut().graceful_shutdown();
            }
            () = closes(listed.as_ref()) => {
                makes_room = true;
                if !activity.is_busy() && activity.version() != Version::Http2 {
                    return tracing::debug!("a connection has made room");
                }
                watchdog.closes();
                connection.as_mut().graceful_shutdown();
                timer.as_mut().reset(Instant::now() + GRACE);
            }
            () = &mut timer => {
                if makes_room && (!activity.is_busy() || listed.as_ref().is_some_and(Listed::ends_soon)) {
                    return tracing::debug!("a connection has made room");
                }
                let now = Instant::now();
                match watchdog.look(now - looked, &shared.options) {
                    Step::Keep => {}
                    Step::Close => connection.as_mut().graceful_shutdown(),
                    Step::Cut(reason) => return tracing::debug!(reason, "a connection is cut off"),
                }
                looked = now;
                timer.as_mut().reset(now + interval);
            }
        }
    }
}

/// How long a connection that makes room stays open: until a client of HTTP/2 knows it and, where it ends although a request is in progress, for the
/// end of its response.
const GRACE: Duration = Duration::from_millis(500);
