//! Accepts connections, and decides which of them have a place.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::activity::Activity;
use super::open::{Listed, OpenConnections};
use super::options::{Peer, Peers};
use crate::places::{Client, Place, Places};

pub(super) struct Accepting {
    pub(super) socket: TcpListener,
    pub(super) places: Arc<Places>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) peers: Peers,
}

/// What a connection has from its beginning.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) place: Place,
    pub(super) activity: Arc<Activity>,
    /// `None` for a connection of a named proxy.
    pub(super) listed: Option<Listed>,
}

impl Accepting {
    /// The next connection that has a place.
    pub(super) async fn next(&self) -> (TcpStream, SocketAddr, Held) {
        loop {
            let (stream, peer) = self.accept().await;
            let kind = (self.peers)(peer.ip());
            let client = (kind == Peer::Client).then(|| Client::at(peer.ip()));
            let Some(place) = self.place(client).await else {
                tracing::debug!("a connection of a client that has its share of them is closed");
                continue;
            };
            let activity = Arc::new(Activity::default());
            let listed = (kind != Peer::Proxy).then(|| self.open.add(client, Arc::clone(&activity)));
            return (stream, peer, Held { place, activity, listed });
        }
    }

    /// A place, once there is one. A client that holds its share of them gets one for its own idle connection, or `None`.
    async fn place(&self, client: Option<Client>) -> Option<Place> {
        if let Some(client) = client.filter(|client| self.places.would_be_beyond_share(*client)) {
            return if self.open.close_idle_of(client) {
                self.places.take_beyond_share(Some(client))
            } else {
                None
            };
        }
        loop {
            let place = self.places.take_beyond_share(client);
            if self.places.are_short() {
                self.open.close_idle(&self.places.beyond_share(), place.is_none());
            }
            if place.is_some() {
                return place;
            }
            // A connection may be idle later, of which nothing is heard here.
            let _ = tokio::time::timeout(LOOK_AGAIN, self.places.freed()).await;
        }
    }

    async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(PAUSE).await;
                }
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

/// How often a connection that waits for a place looks for one that became idle.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
