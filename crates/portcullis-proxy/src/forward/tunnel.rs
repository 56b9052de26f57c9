//! Web sockets: bytes copied both ways.

use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use portcullis::charge::InFlightPermit;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::io::{InspectReader, InspectWriter};

use crate::request::{Activity, Place};

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
        let activity = Activity::new();
        let (mut client, mut upstream) = (observed(client, &activity), observed(upstream, &activity));
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
fn observed(upgraded: Upgraded, activity: &Activity) -> impl AsyncRead + AsyncWrite {
    let progress = |bytes: &[u8]| {
        if !bytes.is_empty() {
            activity.progress();
        }
    };
    InspectWriter::new(InspectReader::new(TokioIo::new(upgraded), progress), progress)
}

/// After the response to the upgrade, both connections are there at once, unless the client does not read it.
const UPGRADE_WITHIN: Duration = Duration::from_secs(10);
