//! The connections that can be closed to make room for others.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::activity::Activity;
use super::places::{Client, Place};

/// The open connections of a listener, without those of named proxies.
#[derive(Debug, Default)]
pub(super) struct OpenConnections(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    by_id: HashMap<u64, Arc<OpenConnection>>,
    /// For how many connections, without a place and with one, room was made by the last search.
    ahead: [usize; 2],
}

#[derive(Debug)]
struct OpenConnection {
    client: Option<Client>,
    activity: Arc<Activity>,
    closing: AtomicU8,
    closes: Notify,
}

/// A connection in the list, until this is dropped: when it ends, and when it is upgraded.
#[derive(Debug)]
pub(super) struct Listed {
    list: Arc<OpenConnections>,
    id: u64,
    connection: Arc<OpenConnection>,
    /// It outlives the connection if this is upgraded.
    place: Weak<Place>,
}

/// How far a connection makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    No,
    /// Requests in progress are finished.
    Gracefully,
    /// Requests in progress have a moment.
    Soon,
}

/// The order in which connections make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    IdleBeyondShare,
    Idle,
    BusyBeyondShare,
    /// It has had no request yet, and so is about to send it.
    New,
}

impl OpenConnections {
    pub(super) fn add(
        self: &Arc<Self>,
        client: Option<Client>,
        activity: Arc<Activity>,
        place: Weak<Place>,
    ) -> Listed {
        let (closing, closes) = (AtomicU8::new(Closing::No as u8), Notify::new());
        let connection = Arc::new(OpenConnection { client, activity, closing, closes });
        let mut list = self.lock();
        let id = list.next;
        list.next += 1;
        list.by_id.insert(id, Arc::clone(&connection));
        Listed { list: Arc::clone(self), id, connection, place }
    }

    /// Closes the connection without a request that is idle longest, of clients `beyond_share` if they have one. If there is no place, and
    /// so `is_last`, also one of them with a request, the one without progress for longest, and at last a new one of others.
    pub(super) fn make_room(&self, beyond_share: impl FnOnce() -> HashSet<Client>, is_last: bool) {
        let mut list = self.lock();
        let ahead = &mut list.ahead[usize::from(!is_last)];
        if *ahead > 0 {
            *ahead -= 1;
            return;
        }
        let beyond_share = beyond_share();
        let rank = |connection: &OpenConnection| {
            let is_beyond = connection.client.is_some_and(|client| beyond_share.contains(&client));
            let rank = match (connection.activity.is_busy(), is_beyond) {
                (false, true) => Rank::IdleBeyondShare,
                (false, false) if connection.activity.started() > 0 => Rank::Idle,
                (true, true) if is_last => Rank::BusyBeyondShare,
                (false, false) if is_last => Rank::New,
                _ => return None,
            };
            connection.may_close(rank.closing(is_last)).then(|| (rank, connection.activity.last()))
        };
        // Of thousands several close, so that the list is not searched for each new one.
        let number = list.by_id.len().div_ceil(BATCH);
        let mut ranked: Vec<_> =
            list.by_id.values().filter_map(|connection| Some((rank(connection)?, connection))).collect();
        if number < ranked.len() {
            ranked.select_nth_unstable_by(number, |(a, _), (b, _)| a.cmp(b));
        }
        for ((rank, _), connection) in ranked.iter().take(number) {
            connection.close(rank.closing(is_last));
        }
        let closed = ranked.len().min(number);
        list.ahead[usize::from(!is_last)] = closed.saturating_sub(1);
    }

    /// Closes the connection of a client without a request that is idle longest, but for new ones. Returns whether there is any.
    pub(super) fn close_idle_of(&self, client: Client) -> bool {
        let list = self.lock();
        let of_client = list.by_id.values().filter(|connection| connection.client == Some(client));
        let idle = of_client.filter(|connection| {
            let activity = &connection.activity;
            !activity.is_busy() && !activity.is_new() && connection.may_close(Closing::Gracefully)
        });
        let oldest = idle.min_by_key(|connection| connection.activity.last());
        oldest.inspect(|oldest| oldest.close(Closing::Gracefully)).is_some()
    }

    /// The list is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    /// Whether it makes less room yet. One that began a request while it closes may be closed again for that.
    fn may_close(&self, closing: Closing) -> bool {
        self.closing.load(Ordering::Relaxed) < closing as u8
    }

    fn close(&self, closing: Closing) {
        self.closing.store(closing as u8, Ordering::Relaxed);
        self.closes.notify_one();
    }
}

impl Rank {
    /// If there is no place, a request that begins meanwhile does not keep a connection beyond the share.
    fn closing(self, is_last: bool) -> Closing {
        let is_beyond = matches!(self, Self::IdleBeyondShare | Self::BusyBeyondShare);
        if is_beyond && is_last { Closing::Soon } else { Closing::Gracefully }
    }
}

impl Listed {
    /// Returns when the connection has to make room, or to make it sooner.
    pub(super) async fn closes(&self) {
        self.connection.closes.notified().await;
    }

    /// Whether it makes room although a request is in progress.
    pub(super) fn ends_soon(&self) -> bool {
        self.connection.closing.load(Ordering::Relaxed) == Closing::Soon as u8
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.lock().by_id.remove(&self.id);
        if let Some(place) = self.place.upgrade() {
            place.keep();
        }
    }
}

/// The connections for which the list is searched each time, which takes 20 µs: less than it takes to accept one.
const BATCH: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::listener::activity::InFlight;

    fn client(host: u8) -> Client {
        Client::at([192, 0, 2, host].into())
    }

    fn open(list: &Arc<OpenConnections>, hosts: &[u8]) -> Vec<(Listed, Arc<Activity>)> {
        let open = |host: &u8| {
            let activity = Arc::new(Activity::default());
            (list.add(Some(client(*host)), Arc::clone(&activity), Weak::new()), activity)
        };
        let opened = hosts.iter().map(open).collect::<Vec<_>>();
        // Each is idle for longer than those behind it.
        for (number, (_, activity)) in opened.iter().enumerate() {
            activity.last_for_test(u64::try_from(number).unwrap());
        }
        opened
    }

    fn closing(open: &[(Listed, Arc<Activity>)]) -> Vec<usize> {
        let closes =
            |listed: &Listed| pin!(listed.closes()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        (0..open.len()).filter(|number| closes(&open[*number].0)).collect()
    }

    #[test]
    fn connection_that_is_idle_longest_closes() {
        let list = Arc::default();
        let mut open = open(&list, &[1, 2, 3, 4]);
        let request = InFlight::begin(&open[0].1);
        list.make_room(HashSet::new, true);
        assert_eq!(closing(&open), [1]);
        drop(request);
        open[0].1.last_for_test(10);
        list.make_room(HashSet::new, false);
        assert_eq!(closing(&open), [0], "the others have had no request");
        open.remove(3);
        list.make_room(HashSet::new, true);
        assert_eq!(closing(&open), [2]);
        list.make_room(HashSet::new, true);
        assert!(closing(&open).is_empty());
    }

    #[test]
    fn new_connections_make_room_at_last() {
        let list = Arc::default();
        let open = open(&list, &[1, 2, 3]);
        drop(InFlight::begin(&open[2].1));
        list.make_room(HashSet::new, false);
        list.make_room(HashSet::new, false);
        assert_eq!(closing(&open), [2], "the others have had no request");
        list.make_room(HashSet::new, true);
        assert_eq!(closing(&open), [0]);
    }

    #[test]
    fn clients_beyond_their_share_close_first() {
        let list = Arc::default();
        let open = open(&list, &[1, 2, 2, 1]);
        list.make_room(|| HashSet::from([client(2)]), false);
        assert_eq!(closing(&open), [1]);
        for number in [0, 3] {
            drop(InFlight::begin(&open[number].1));
            open[number].1.last_for_test(u64::try_from(number).unwrap());
        }
        for expected in [0, 3] {
            assert!(list.close_idle_of(client(1)));
            assert_eq!(closing(&open), [expected]);
        }
        assert!(!list.close_idle_of(client(1)), "both close already");
        assert!(!list.close_idle_of(client(3)));
    }

    #[test]
    fn busy_connection_beyond_its_share_closes() {
        let list = Arc::default();
        let open = open(&list, &[1, 2, 2, 3]);
        let requests: Vec<_> = open[..3].iter().map(|(_, activity)| InFlight::begin(activity)).collect();
        open[2].1.last_for_test(0);
        let beyond = HashSet::from([client(2)]);
        list.make_room(|| beyond.clone(), false);
        assert!(closing(&open).is_empty(), "there are places");
        for expected in [vec![2], vec![1], vec![3], vec![]] {
            list.make_room(|| beyond.clone(), true);
            assert_eq!(closing(&open), expected);
        }
        assert!(open[2].0.ends_soon() && !open[3].0.ends_soon());
        drop(requests);
    }

    /// A client can begin a request after GOAWAY.
    #[test]
    fn request_on_a_closing_connection_makes_room() {
        let list = Arc::default();
        let open = open(&list, &[1]);
        let beyond = HashSet::from([client(1)]);
        list.make_room(|| beyond.clone(), false);
        assert_eq!(closing(&open), [0]);
        let _request = InFlight::begin(&open[0].1);
        list.make_room(|| beyond.clone(), true);
        assert!(closing(&open) == [0] && open[0].0.ends_soon());
    }

    #[test]
    fn request_keeps_no_place_beyond_its_share() {
        let list = Arc::default();
        let open = open(&list, &[1, 2]);
        drop(InFlight::begin(&open[1].1));
        list.make_room(|| HashSet::from([client(1)]), true);
        let _request = InFlight::begin(&open[0].1);
        assert!(closing(&open) == [0] && open[0].0.ends_soon());
        list.make_room(HashSet::new, true);
        assert!(closing(&open) == [1] && !open[1].0.ends_soon(), "its client has no more than its share");
    }

    #[test]
    fn thousands_of_connections_close_in_batches() {
        let list = Arc::default();
        let open = open(&list, &[1; 3_000]);
        for expected in [vec![0, 1, 2], vec![], vec![], vec![3, 4, 5]] {
            list.make_room(HashSet::new, true);
            assert_eq!(closing(&open), expected);
        }
    }

    #[test]
    fn only_room_that_was_made_is_ahead() {
        let list = Arc::default();
        let open = open(&list, &[1; 3_000]);
        drop(InFlight::begin(&open[7].1));
        list.make_room(HashSet::new, false);
        assert_eq!(closing(&open), [7], "the others have had no request");
        drop(InFlight::begin(&open[8].1));
        list.make_room(HashSet::new, false);
        assert_eq!(closing(&open), [8]);
    }

    #[test]
    fn shares_are_not_asked_for_room_ahead() {
        let list = Arc::default();
        let _open = open(&list, &[1; 3_000]);
        list.make_room(HashSet::new, true);
        list.make_room(|| unreachable!("room was made ahead"), true);
    }
}
