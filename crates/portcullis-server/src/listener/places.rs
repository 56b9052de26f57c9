//! The places of connections and requests: a bounded number, of which a few clients cannot take all.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis::ClientIp;
use portcullis::key::IpPrefix;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Whoever takes places: an address, or its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(IpPrefix);

impl Client {
    /// An address of IPv6 is its /64.
    pub fn at(address: IpAddr) -> Self {
        Self::of(&ClientIp::peer(), address)
    }

    /// The network that is charged for an address.
    pub fn of(clients: &ClientIp, address: IpAddr) -> Self {
        Self(clients.prefix(address))
    }

    /// All whose address cannot be read.
    pub fn unknown() -> Self {
        Self::at(Ipv6Addr::UNSPECIFIED.into())
    }
}

/// Places that clients share. A client has no bound while at least a quarter of them is free for others. Beyond that, it has its share.
#[derive(Debug)]
pub struct Places {
    all: u32,
    share: Share,
    taken: Mutex<Taken>,
    freed: Notify,
}

/// What a client may hold while places are short: at least one.
#[derive(Clone, Copy, Debug)]
enum Share {
    /// An equal part of the places that can be taken back, for each client that holds a place and for one more, at most a quarter. If all
    /// places are taken, some client holds more of them than that, so that room can be made.
    Equal,
    /// A part of the places that are free, because none can be taken back: an eighth, or [`FEW`] if that is more, but no more than half.
    OfFree,
}

/// Why a client gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It holds its share, and places are short.
    Share,
    /// None is free.
    All,
}

/// Has an entry for each client that holds a place, and for no other.
#[derive(Debug, Default)]
struct Taken {
    all: u32,
    /// The places that cannot be taken back: without a client, or kept.
    kept: u32,
    by_client: HashMap<Client, TakenByClient>,
}

#[derive(Debug, Default)]
struct TakenByClient {
    all: u32,
    kept: u32,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    client: Option<Client>,
    is_kept: AtomicBool,
}

impl Places {
    /// Places of connections, which can be taken back: the share of a client is an equal one.
    pub(crate) fn of_connections(all: u32) -> Arc<Self> {
        Self::new(all, Share::Equal)
    }

    /// Places of requests, which cannot be taken back: the share of a client is a part of those that are free.
    pub fn of_requests(all: u32) -> Arc<Self> {
        Self::new(all, Share::OfFree)
    }

    fn new(all: u32, share: Share) -> Arc<Self> {
        Arc::new(Self { all, share, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place within the share of the client. Without a client only the number of all places counts.
    ///
    /// # Errors
    ///
    /// If the client has its share while places are short, or none is free.
    pub fn take(self: &Arc<Self>, client: Option<Client>) -> Result<Place, Full> {
        let mut taken = self.lock();
        if let Some(client) = client
            && self.leaves_too_few(taken.all.saturating_add(1))
            && taken.by_client.get(&client).is_some_and(|held| held.all >= self.share(&taken, Some(client)))
        {
            return Err(Full::Share);
        }
        if taken.all >= self.all {
            return Err(Full::All);
        }
        taken.all += 1;
        match client {
            Some(client) => taken.by_client.entry(client).or_default().all += 1,
            None => taken.kept += 1,
        }
        Ok(Place { places: Arc::clone(self), client, is_kept: client.is_none().into() })
    }

    /// Whether less than a quarter of the places is free.
    pub(crate) fn are_short(&self) -> bool {
        self.leaves_too_few(self.lock().all)
    }

    /// The clients that hold more places that can be taken back than the share they have if `client` gets a place.
    pub(crate) fn beyond_share(&self, client: Option<Client>) -> HashSet<Client> {
        let taken = self.lock();
        let share = self.share(&taken, client);
        let beyond = taken.by_client.iter().filter(|(_, held)| held.all - held.kept > share);
        beyond.map(|(client, _)| *client).collect()
    }

    /// The places that are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.lock().all
    }

    /// Ends once a place is freed after this call.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    fn share(&self, taken: &Taken, client: Option<Client>) -> u32 {
        let share = match self.share {
            Share::Equal => {
                let is_new = client.is_some_and(|client| !taken.by_client.contains_key(&client));
                let clients = taken.by_client.len() + usize::from(is_new);
                (self.all - taken.kept) / u32::try_from(clients + 1).unwrap_or(u32::MAX).max(4)
            }
            Share::OfFree => {
                let free = self.all.saturating_sub(taken.all);
                (free / 8).max(FEW.min(free / 2))
            }
        };
        share.max(1)
    }

    fn leaves_too_few(&self, taken: u32) -> bool {
        u64::from(self.all.saturating_sub(taken)) * 4 < u64::from(self.all)
    }

    /// The numbers are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The place cannot be taken back from now on. It still counts as one of its client.
    pub(crate) fn keep(&self) {
        let mut taken = self.places.lock();
        if !self.is_kept.swap(true, Ordering::Relaxed) {
            taken.kept += 1;
            if let Some(held) = self.client.and_then(|client| taken.by_client.get_mut(&client)) {
                held.kept += 1;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let kept = u32::from(*self.is_kept.get_mut());
        let mut taken = self.places.lock();
        taken.all -= 1;
        taken.kept -= kept;
        if let Some(client) = self.client
            && let Some(held) = taken.by_client.get_mut(&client)
        {
            held.all -= 1;
            held.kept -= kept;
            if held.all == 0 {
                taken.by_client.remove(&client);
            }
        }
        drop(taken);
        self.places.freed.notify_waiters();
    }
}

/// What a client needs that loads a page.
const FEW: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::at(address.parse().unwrap())
    }

    fn take(places: &Arc<Places>, address: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.take(Some(client(address))).ok()).collect()
    }

    /// What each of so many clients gets that take all they can, one after the other.
    fn greedy(places: &Arc<Places>, clients: usize) -> Vec<usize> {
        let taken: Vec<_> = (0..clients).map(|host| take(places, &format!("192.0.2.{host}"))).collect();
        taken.iter().map(Vec::len).collect()
    }

    #[test]
    fn greedy_clients_leave_requests_to_others() {
        assert_eq!(greedy(&Places::of_requests(1_024), 4), [768, 28, 25, 22]);
        assert_eq!(greedy(&Places::of_requests(128), 4), [96, 8, 8, 5]);
        for (requests, clients) in [(8, 3), (16, 5), (64, 8), (512, 20), (1_024, 26)] {
            let got = greedy(&Places::of_requests(requests), clients);
            assert!(got.iter().all(|got| *got > 0), "{requests}: {got:?}");
        }
    }

    #[test]
    fn client_leaves_quarter_to_others() {
        for new in [Places::of_connections, Places::of_requests] {
            for (all, most) in [(1, 1), (2, 1), (4, 3), (8, 6), (100, 75), (1_024, 768)] {
                let places = new(all);
                let taken = take(&places, "192.0.2.1");
                assert_eq!(taken.len(), most, "{places:?}");
                drop(taken);
                assert_eq!(take(&places, "192.0.2.2").len(), most, "{places:?}");
            }
        }
    }

    /// Room is made among the places of connections if a client holds more than its share.
    #[test]
    fn full_places_have_a_client_beyond_its_share() {
        for clients in 1..16 {
            let places = Places::of_connections(16);
            let mut taken = Vec::new();
            // While there is room they take equal parts, which are the least that some of them hold in the end.
            for turn in 0..16 {
                let address = format!("192.0.2.{}", turn % clients);
                taken.extend(places.take(Some(client(&address))).ok());
            }
            let newcomer = Some(client("198.51.100.1"));
            match places.take(newcomer) {
                Ok(_) => assert!(taken.len() < 16),
                Err(full) => {
                    assert_eq!(full, Full::All, "{clients}");
                    assert!(!places.beyond_share(newcomer).is_empty(), "{clients}");
                }
            }
        }
    }

    #[test]
    fn kept_places_count_in_no_share() {
        for client_keeps in [false, true] {
            let places = Places::of_connections(64);
            let keeper = client_keeps.then(|| client("198.51.100.1"));
            let mut taken: Vec<_> = (0..32).map(|_| places.take(keeper).unwrap()).collect();
            taken.iter().for_each(Place::keep);
            for turn in 0..16 {
                taken.push(places.take(Some(client(&format!("192.0.2.{}", turn % 3)))).unwrap());
            }
            for host in 10..20 {
                taken.extend(take(&places, &format!("192.0.2.{host}")));
            }
            assert_eq!(places.taken(), 64);
            let beyond = places.beyond_share(Some(client("198.51.100.2")));
            assert!(beyond.contains(&client("192.0.2.0")), "{beyond:?}");
            assert!(!beyond.contains(&client("198.51.100.1")), "{beyond:?}");
            drop(taken);
            assert_eq!(places.lock().kept, 0);
        }
    }

    #[test]
    fn nobody_has_no_share() {
        let places = Places::of_requests(100);
        let taken: Vec<_> = std::iter::from_fn(|| places.take(None).ok()).collect();
        assert_eq!(taken.len(), 100);
        assert_eq!(places.take(Some(client("192.0.2.1"))).unwrap_err(), Full::All);
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
        drop((0..4).map(|host| take(&places, &format!("192.0.2.{host}"))).collect::<Vec<_>>());
        assert!(places.lock().by_client.is_empty());
        assert_eq!(places.taken(), 0);
    }
}
