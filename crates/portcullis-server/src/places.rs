//! The places of connections and requests: a bounded number, of which one client cannot take all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis::ClientIp;
use portcullis::key::IpPrefix;
use tokio::sync::Notify;

/// Whoever takes places: an address, of IPv6 a /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(IpPrefix);

impl Client {
    pub(crate) fn at(address: IpAddr) -> Self {
        Self(ClientIp::peer().prefix(address))
    }

    /// All whose address cannot be read.
    pub(crate) fn unknown() -> Self {
        Self::at(Ipv6Addr::UNSPECIFIED.into())
    }
}

/// Places that clients share. A client has no bound while at least a quarter of them is free for others. Beyond that, it has its share.
#[derive(Debug)]
pub(crate) struct Places {
    all: u32,
    /// What a client may hold while places are short.
    share: u32,
    taken: Mutex<Taken>,
    freed: Notify,
}

/// Has an entry for each client that holds a place, and for no other.
#[derive(Debug, Default)]
struct Taken {
    all: u32,
    by_client: HashMap<Client, u32>,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    client: Option<Client>,
}

impl Places {
    /// Places of connections. The share of a client is a quarter.
    pub(crate) fn of_connections(all: u32) -> Arc<Self> {
        Self::new(all, (all / 4).max(1))
    }

    /// Places of requests. The share of a client is a sixteenth, and at least 8.
    pub(crate) fn of_requests(all: u32) -> Arc<Self> {
        Self::new(all, (all / 16).max(8))
    }

    fn new(all: u32, share: u32) -> Arc<Self> {
        Arc::new(Self { all, share, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place within the share of the client. Without a client only the number of all places counts.
    pub(crate) fn take(self: &Arc<Self>, client: Option<Client>) -> Option<Place> {
        let mut taken = self.lock();
        if self.is_beyond_share(&taken, client) { None } else { self.take_any(&mut taken, client) }
    }

    /// Takes a place, also beyond the share of the client.
    pub(crate) fn take_beyond_share(self: &Arc<Self>, client: Option<Client>) -> Option<Place> {
        self.take_any(&mut self.lock(), client)
    }

    /// Whether a further place of this client would be beyond its share, and less than a quarter of the places free for others.
    pub(crate) fn would_be_beyond_share(&self, client: Client) -> bool {
        self.is_beyond_share(&self.lock(), Some(client))
    }

    /// Whether less than a quarter of the places is free.
    pub(crate) fn are_short(&self) -> bool {
        self.leaves_too_few(self.lock().all)
    }

    /// The clients that hold more than their share: at most a few.
    pub(crate) fn beyond_share(&self) -> Vec<Client> {
        let taken = self.lock();
        taken.by_client.iter().filter(|(_, held)| **held > self.share).map(|(client, _)| *client).collect()
    }

    /// The places that are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.lock().all
    }

    /// Returns once a place was freed since the last call. For one waiter at a time.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    fn take_any(self: &Arc<Self>, taken: &mut Taken, client: Option<Client>) -> Option<Place> {
        if taken.all >= self.all {
            return None;
        }
        taken.all += 1;
        if let Some(client) = client {
            *taken.by_client.entry(client).or_default() += 1;
        }
        Some(Place { places: Arc::clone(self), client })
    }

    fn is_beyond_share(&self, taken: &Taken, client: Option<Client>) -> bool {
        let held = client.map_or(0, |client| taken.by_client.get(&client).copied().unwrap_or_default());
        held >= self.share && self.leaves_too_few(taken.all.saturating_add(1))
    }

    fn leaves_too_few(&self, taken: u32) -> bool {
        u64::from(self.all.saturating_sub(taken)) * 4 < u64::from(self.all)
    }

    /// The numbers are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(client) = self.client
            && let Some(held) = taken.by_client.get_mut(&client)
        {
            *held -= 1;
            if *held == 0 {
                taken.by_client.remove(&client);
            }
        }
        drop(taken);
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::at(address.parse().unwrap())
    }

    fn take(places: &Arc<Places>, address: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.take(Some(client(address)))).collect()
    }

    #[test]
    fn client_leaves_quarter_to_others() {
        let places = Places::of_requests(1_024);
        let first = take(&places, "192.0.2.1");
        assert_eq!(first.len(), 768);
        let others: Vec<_> = (2..7).map(|host| take(&places, &format!("192.0.2.{host}"))).collect();
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 64, 64, 0]);
        assert_eq!(places.taken(), 1_024);
        drop(first);
        assert_eq!(take(&places, "192.0.2.9").len(), 512);
    }

    #[test]
    fn shares_have_least_size() {
        for (places, most) in [
            (Places::of_connections(4), 3),
            (Places::of_connections(1), 1),
            (Places::of_requests(8), 8),
            (Places::of_requests(100), 75),
        ] {
            assert_eq!(take(&places, "192.0.2.1").len(), most, "{places:?}");
        }
    }

    #[test]
    fn nobody_has_no_share() {
        let places = Places::of_requests(100);
        let taken: Vec<_> = std::iter::from_fn(|| places.take(None)).collect();
        assert_eq!(taken.len(), 100);
        assert!(places.take(Some(client("192.0.2.1"))).is_none());
    }

    #[test]
    fn network_of_ipv6_is_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }

    #[test]
    fn clients_without_places_are_forgotten() {
        let places = Places::of_connections(8);
        drop((0..4).map(|host| places.take(Some(client(&format!("192.0.2.{host}"))))).collect::<Vec<_>>());
        assert!(places.lock().by_client.is_empty());
        assert_eq!(places.taken(), 0);
    }
}
