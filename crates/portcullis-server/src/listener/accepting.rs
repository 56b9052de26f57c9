//! Accepts connections, and decides which of them have a place.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use portcullis_log::codes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::activity::Activity;
use super::open::{Listed, OpenConnections};
use super::options::{Peer, Peers};
use super::places::{Client, Full, Place, Places};
use super::waiting::WaitingConnections;

/// Gives connections their places.
pub(super) struct Admission {
    pub(super) places: Arc<Places>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) waiting: WaitingConnections,
    pub(super) peers: Peers,
}

/// What a connection has from its beginning.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) place: Arc<Place>,
    pub(super) activity: Arc<Activity>,
    /// `None` for a connection of a named proxy.
    pub(super) listed: Option<Listed>,
}

impl Admission {
    /// Waits until the connection of a peer has a place, with the permit to wait. `None` if its client has its share of them, or of those that wait.
    pub(super) async fn admit(&self, peer: IpAddr, permit: OwnedSemaphorePermit) -> Option<Held> {
        let peer = (self.peers)(peer);
        let client = match peer {
            Peer::Client(client) => Some(client),
            Peer::Caller | Peer::Proxy => None,
        };
        let place = Arc::new(self.place(client, permit).await?);
        let activity = Arc::new(Activity::default());
        let listed = (peer != Peer::Proxy)
            .then(|| self.open.add(client, Arc::clone(&activity), Arc::downgrade(&place)));
        Some(Held { place, activity, listed })
    }

    async fn place(&self, client: Option<Client>, permit: OwnedSemaphorePermit) -> Option<Place> {
        let (mut permit, mut waits) = (Some(permit), None);
        let mut look = Instant::now();
        loop {
            let freed = self.places.freed();
            let full = match self.places.take(client) {
                Ok(place) => {
                    if waits.is_none() && self.places.are_short() {
                        self.open.make_room(|| self.places.beyond_share(client), false);
                    }
                    return Some(place);
                }
                Err(full) => full,
            };
            if Instant::now() >= look {
                match full {
                    // One waits in place of another of its client, and for no longer. It keeps none of other clients from being accepted.
                    Full::Share if waits.is_none() => {
                        waits = Some(self.waiting.begin(client, 1)?);
                        if !client.is_some_and(|client| self.open.close_idle_of(client)) {
                            return None;
                        }
                        permit = None;
                    }
                    // A connection may be idle later, of which nothing is heard here.
                    Full::All if permit.is_some() => {
                        if waits.is_none() {
                            waits = Some(self.waiting.begin(client, MAX_WAITING_OF_CLIENT)?);
                        }
                        self.open.make_room(|| self.places.beyond_share(client), true);
                    }
                    _ => return None,
                }
                look = Instant::now() + LOOK_AGAIN;
            }
            let _ = tokio::time::timeout_at(look, freed).await;
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
                tracing::warn!(code = %codes::CANNOT_ACCEPT, %error, "cannot accept connections");
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

/// The connections of a client that wait at the same time while all places are taken.
const MAX_WAITING_OF_CLIENT: usize = 8;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::listener::activity::InFlight;

    /// For longer than this no connection is new.
    const LONG: Duration = Duration::from_secs(2);

    fn admission(connections: u32) -> Admission {
        let peers: Peers = Arc::new(|peer| Peer::Client(Client::at(peer)));
        let (open, waiting) = Default::default();
        Admission { places: Places::of_connections(connections), open, waiting, peers }
    }

    /// A place for each host of the list.
    async fn hold(admission: &Admission, hosts: &[u8]) -> Vec<Held> {
        let mut held = Vec::new();
        for host in hosts {
            held.push(admission.admit(address(*host), permit()).await.unwrap());
        }
        held
    }

    fn address(host: u8) -> IpAddr {
        [192, 0, 2, host].into()
    }

    fn permit() -> OwnedSemaphorePermit {
        Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
    }

    async fn is_refused(future: impl Future<Output = Option<Held>>) -> bool {
        let mut future = pin!(future);
        poll_fn(|cx| Poll::Ready(matches!(future.as_mut().poll(cx), Poll::Ready(None)))).await
    }

    async fn is_pending(future: &mut Pin<&mut impl Future>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn connection_waits_for_one_of_its_client() {
        let admission = admission(4);
        let mut held = hold(&admission, &[1; 3]).await;
        assert!(is_refused(admission.admit(address(1), permit())).await, "they are about to send a request");
        tokio::time::advance(LONG).await;
        let _requests: Vec<_> = held[..2].iter().map(|held| InFlight::begin(&held.activity)).collect();
        let mut next = pin!(admission.admit(address(1), permit()));
        assert!(is_pending(&mut next).await);
        held[2].listed.as_ref().unwrap().closes().await;
        assert!(is_pending(&mut next).await, "it has not ended");
        assert!(is_refused(admission.admit(address(1), permit())).await, "one waits already");
        held.pop();
        held.push(next.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn request_on_a_closing_connection_keeps_it() {
        let admission = admission(4);
        let held = hold(&admission, &[1; 3]).await;
        tokio::time::advance(LONG).await;
        let mut next = pin!(admission.admit(address(1), permit()));
        assert!(is_pending(&mut next).await);
        let _requests: Vec<_> = held.iter().map(|held| InFlight::begin(&held.activity)).collect();
        assert!(next.await.is_none());
        assert_eq!(admission.places.taken(), 3);
    }

    /// A connection that closes for another one begins a request, which is no reason for a second one to wait.
    #[tokio::test(start_paused = true)]
    async fn client_at_its_share_waits_once() {
        let admission = admission(8);
        let held = hold(&admission, &[1; 6]).await;
        tokio::time::advance(LONG).await;
        let waiting = Arc::new(Semaphore::new(1));
        let permit_to_wait = waiting.clone().try_acquire_owned().unwrap();
        let mut next = pin!(admission.admit(address(1), permit_to_wait));
        assert!(is_pending(&mut next).await);
        assert_eq!(waiting.available_permits(), 1, "others are accepted");
        let _request = InFlight::begin(&held[0].activity);
        assert!(is_refused(admission.admit(address(1), permit())).await);
    }

    #[tokio::test(start_paused = true)]
    async fn client_has_few_that_wait_for_any_place() {
        let admission = admission(2);
        let held = hold(&admission, &[1, 2]).await;
        let _requests: Vec<_> = held.iter().map(|held| InFlight::begin(&held.activity)).collect();
        let mut waiting: Vec<_> =
            (0..MAX_WAITING_OF_CLIENT).map(|_| Box::pin(admission.admit(address(3), permit()))).collect();
        for next in &mut waiting {
            assert!(is_pending(&mut next.as_mut()).await);
        }
        assert!(is_refused(admission.admit(address(3), permit())).await);
        assert!(is_pending(&mut pin!(admission.admit(address(4), permit()))).await);
        waiting.pop();
        assert!(is_pending(&mut pin!(admission.admit(address(3), permit()))).await);
    }

    #[tokio::test]
    async fn upgraded_connections_are_kept() {
        let admission = admission(8);
        let mut held = hold(&admission, &[1; 6]).await;
        let beyond = || admission.places.beyond_share(Some(Client::at(address(2)))).len();
        assert_eq!(beyond(), 1);
        for upgraded in &mut held[..5] {
            upgraded.listed = None;
        }
        assert_eq!((beyond(), admission.places.taken()), (0, 6));
        let _request = InFlight::begin(&held[5].activity);
        assert!(is_refused(admission.admit(address(1), permit())).await, "they are of their client");
    }

    #[tokio::test(start_paused = true)]
    async fn all_places_make_room_for_a_newcomer() {
        let admission = admission(2);
        let mut held = hold(&admission, &[1, 2]).await;
        let _requests: Vec<_> = held.iter().map(|held| InFlight::begin(&held.activity)).collect();
        let mut next = pin!(admission.admit(address(3), permit()));
        assert!(is_pending(&mut next).await, "each has its share");
        held.pop();
        assert!(next.await.is_some());
    }
}
