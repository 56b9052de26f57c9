//! Web sockets: bytes copied both ways.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use portcullis::charge::InFlightPermit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::activity::Activity;
use super::settings::Place;

/// What the connection holds until it ends.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    pub(super) place: Place,
    /// Of policies that limit requests in flight.
    pub(super) in_flight: Option<InFlightPermit>,
}

impl Tunnel {
    /// Copies until both sides have ended, one has failed, or neither has made progress for that time.
    pub(super) async fn run(self, idle: Duration) {
        let Self { client, upstream, place, in_flight } = self;
        let _held = (place, in_flight);
        let upgraded = timeout(UPGRADE_WITHIN, async { tokio::try_join!(client, upstream) }).await;
        let (client, upstream) = match upgraded {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return tracing::debug!(%error, "an upgrade has failed"),
            Err(_) => return tracing::debug!("an upgrade was not made in time"),
        };
        let activity = Arc::new(Activity::new());
        let mut client = Observed { io: TokioIo::new(client), activity: Arc::clone(&activity) };
        let mut upstream = Observed { io: TokioIo::new(upstream), activity: Arc::clone(&activity) };
        tokio::select! {
            copied = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {
                if let Err(error) = copied {
                    tracing::debug!(%error, "a web socket has failed");
                }
            }
            () = activity.idle_for(idle) => tracing::debug!("a web socket was idle for too long"),
        }
    }
}

/// Reports each byte as progress.
struct Observed<T> {
    io: T,
    activity: Arc<Activity>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Observed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.activity.progress();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Observed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        if written > 0 {
            self.activity.progress();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// After the response to the upgrade, both connections are there at once, unless the client does not read it.
const UPGRADE_WITHIN: Duration = Duration::from_secs(10);
