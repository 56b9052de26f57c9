//! The connections that can be closed to make room for others.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::activity::Activity;
use crate::places::Client;

/// The open connections of a listener, without those of named proxies.
#[derive(Debug, Default)]
pub(super) struct OpenConnections(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    by_id: HashMap<u64, Arc<OpenConnection>>,
}

#[derive(Debug)]
struct OpenConnection {
    client: Option<Client>,
    activity: Arc<Activity>,
    is_closing: AtomicBool,
    is_cut: AtomicBool,
    closes: Notify,
}

/// A connection in the list, until this is dropped: when it ends, and when it is upgraded.
#[derive(Debug)]
pub(super) struct Listed {
    list: Arc<OpenConnections>,
    id: u64,
    connection: Arc<OpenConnection>,
}

/// How a connection is closed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// As at shutdown, within a moment.
    Graceful,
    AtOnce,
}

impl OpenConnections {
    pub(super) fn add(self: &Arc<Self>, client: Option<Client>, activity: Arc<Activity>) -> Listed {
        let (is_closing, is_cut) = Default::default();
        let connection = OpenConnection { client, activity, is_closing, is_cut, closes: Notify::new() };
        let connection = Arc::new(connection);
        let mut list = self.lock();
        let id = list.next;
        list.next += 1;
        list.by_id.insert(id, Arc::clone(&connection));
        Listed { list: Arc::clone(self), id, connection }
    }

    /// Closes the connection without a request that is idle longest, of clients `beyond_share` if they have one. Returns whether there is any.
    ///
    /// Of others, one that has had no request yet is about to send it, and makes room only if `is_last`.
    pub(super) fn close_idle(&self, beyond_share: &[Client], is_last: bool) -> bool {
        let is_beyond = |client: Option<Client>| client.is_some_and(|client| beyond_share.contains(&client));
        let rank = |connection: &OpenConnection| {
            let (is_beyond, is_new) = (is_beyond(connection.client), connection.activity.started() == 0);
            let since = idle_since(connection).filter(|_| is_beyond || is_last || !is_new)?;
            Some((Reverse(is_beyond), is_new, since))
        };
        self.close_first(rank, Closing::Graceful)
    }

    /// Closes the connection of a client without a request that is idle longest. Returns whether there is any.
    pub(super) fn close_idle_of(&self, client: Client) -> bool {
        let rank = |connection: &OpenConnection| {
            idle_since(connection).filter(|_| connection.client == Some(client))
        };
        self.close_first(rank, Closing::AtOnce)
    }

    /// Closes those with the smallest rank: one, and of thousands one in [`BATCH`], so that the list is not searched for each of them.
    fn close_first<R: Ord>(&self, rank: impl Fn(&OpenConnection) -> Option<R>, closing: Closing) -> bool {
        let list = self.lock();
        let is_open = |connection: &&Arc<OpenConnection>| !connection.is_closing.load(Ordering::Relaxed);
        let open = list.by_id.values().filter(is_open);
        let mut ranked: Vec<_> =
            open.filter_map(|connection| Some((rank(connection)?, connection))).collect();
        let number = ranked.len().div_ceil(BATCH);
        if number < ranked.len() {
            ranked.select_nth_unstable_by(number, |(a, _), (b, _)| a.cmp(b));
        }
        for (_, connection) in ranked.iter().take(number) {
            connection.close(closing);
        }
        number > 0
    }

    /// The list is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    fn close(&self, closing: Closing) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.is_cut.store(closing == Closing::AtOnce, Ordering::Relaxed);
        self.closes.notify_one();
    }
}

impl Listed {
    /// Returns when the connection has to make room.
    pub(super) async fn closes(&self) -> Closing {
        self.connection.closes.notified().await;
        if self.connection.is_cut.load(Ordering::Relaxed) { Closing::AtOnce } else { Closing::Graceful }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.lock().by_id.remove(&self.id);
    }
}

fn idle_since(connection: &OpenConnection) -> Option<u64> {
    (!connection.activity.is_busy()).then(|| connection.activity.last())
}

const BATCH: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::serve::listener::activity::InFlight;

    fn client(host: u8) -> Client {
        Client::at([192, 0, 2, host].into())
    }

    fn open(list: &Arc<OpenConnections>, hosts: &[u8]) -> Vec<(Listed, Arc<Activity>)> {
        let open = |host: &u8| {
            let activity = Arc::new(Activity::default());
            (list.add(Some(client(*host)), Arc::clone(&activity)), activity)
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
        assert!(list.close_idle(&[], true));
        assert_eq!(closing(&open), [1]);
        drop(request);
        open[0].1.last_for_test(10);
        assert!(list.close_idle(&[], false));
        assert_eq!(closing(&open), [0], "the others have had no request");
        open.remove(3);
        assert!(list.close_idle(&[], true) && !list.close_idle(&[], true));
        assert_eq!(closing(&open), [2]);
    }

    #[test]
    fn new_connections_make_room_at_last() {
        let list = Arc::default();
        let open = open(&list, &[1, 2, 3]);
        drop(InFlight::begin(&open[2].1));
        assert!(list.close_idle(&[], false) && !list.close_idle(&[], false));
        assert_eq!(closing(&open), [2], "the others have had no request");
        assert!(list.close_idle(&[], true));
        assert_eq!(closing(&open), [0]);
    }

    #[test]
    fn clients_beyond_their_share_close_first() {
        let list = Arc::default();
        let open = open(&list, &[1, 2, 2, 1]);
        assert!(list.close_idle(&[client(2)], false));
        assert_eq!(closing(&open), [1]);
        assert!(list.close_idle_of(client(1)));
        assert_eq!(closing(&open), [0]);
        assert!(!list.close_idle_of(client(3)));
    }

    #[test]
    fn thousands_of_connections_close_in_batches() {
        let list = Arc::default();
        let open = open(&list, &[1; 3_000]);
        assert!(list.close_idle(&[], true));
        assert_eq!(closing(&open), [0, 1, 2]);
    }
}
