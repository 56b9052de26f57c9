//! Accepts connections, and decides which of them have a place.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::activity::Activity;
use super::open::{Listed, OpenConnections};
use super::options::{Peer, Peers};
use crate::places::{Client, Full, Place, Places};

/// Gives connections their places.
pub(super) struct Admission {
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

impl Admission {
    /// Waits until the connection of a peer has a place. `None` if its client has its share of them.
    pub(super) async fn admit(&self, peer: IpAddr) -> Option<Held> {
        let peer = (self.peers)(peer);
        let client = match peer {
            Peer::Client(client) => Some(client),
            Peer::Caller | Peer::Proxy => None,
        };
        let place = self.place(client).await?;
        let activity = Arc::new(Activity::default());
        let listed = (peer != Peer::Proxy).then(|| self.open.add(client, Arc::clone(&activity)));
        Some(Held { place, activity, listed })
    }

    async fn place(&self, client: Option<Client>) -> Option<Place> {
        let mut look_again: Option<Instant> = None;
        loop {
            let freed = self.places.freed();
            let taken = self.places.take(client);
            let is_due = look_again.is_none_or(|at| Instant::now() >= at);
            match (&taken, client) {
                (Ok(_), _) if look_again.is_none() && self.places.are_short() => {
                    self.open.make_room(&self.places.beyond_share(client), false);
                }
                (Err(Full::Share), Some(client)) if is_due => {
                    let makes_room = look_again.is_none() && self.open.close_idle_of(client);
                    if !makes_room {
                        return None;
                    }
                }
                // A connection may be idle later, of which nothing is heard here.
                (Err(Full::All), _) if is_due => {
                    self.open.make_room(&self.places.beyond_share(client), true);
                }
                _ => {}
            }
            if let Ok(place) = taken {
                return Some(place);
            }
            let at = match look_again {
                Some(at) if !is_due => at,
                _ => *look_again.insert(Instant::now() + LOOK_AGAIN),
            };
            let _ = tokio::time::timeout_at(at, freed).await;
        }
    }
}

/// The next connection.
pub(super) async fn accept(socket: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match socket.accept().await {
            Ok(accepted) => return accepted,
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

/// How often a connection that waits for a place makes room, and how long one waits in place of which another of its client closes. It is
/// longer than a connection may take that makes room.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::*;
    use crate::serve::listener::activity::InFlight;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn admission(connections: u32) -> Admission {
        let peers: Peers = Arc::new(|peer| Peer::Client(Client::at(peer)));
        Admission { places: Places::of_connections(connections), open: Arc::default(), peers }
    }

    async fn is_pending(future: &mut Pin<&mut impl Future>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn connection_waits_for_one_of_its_client() {
        let admission = admission(4);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(admission.admit(ADDRESS).await.unwrap());
        }
        let _requests: Vec<_> = held[..2].iter().map(|held| InFlight::begin(&held.activity)).collect();
        let mut next = pin!(admission.admit(ADDRESS));
        assert!(is_pending(&mut next).await);
        held[2].listed.as_ref().unwrap().closes().await;
        assert!(is_pending(&mut next).await, "it has not ended");
        assert!(admission.admit(ADDRESS).await.is_none(), "one waits already");
        held.pop();
        held.push(next.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn request_on_a_closing_connection_keeps_it() {
        let admission = admission(4);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(admission.admit(ADDRESS).await.unwrap());
        }
        let mut next = pin!(admission.admit(ADDRESS));
        assert!(is_pending(&mut next).await);
        let _requests: Vec<_> = held.iter().map(|held| InFlight::begin(&held.activity)).collect();
        assert!(next.await.is_none());
        assert_eq!(admission.places.taken(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn all_places_make_room_for_a_newcomer() {
        let admission = admission(2);
        let mut held = Vec::new();
        for host in [1, 2] {
            held.push(admission.admit([192, 0, 2, host].into()).await.unwrap());
        }
        let _requests: Vec<_> = held.iter().map(|held| InFlight::begin(&held.activity)).collect();
        let mut next = pin!(admission.admit([192, 0, 2, 3].into()));
        assert!(is_pending(&mut next).await, "each has its share");
        held.pop();
        assert!(next.await.is_some());
    }
}
