//! The reservations that this instance has made, and the answers to their commits.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis::key::Key;
use portcullis_engine::engine::keyed_limit::{KeyedLimit, KeyedPermit};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::open::{Due, Open};
use crate::CallError;

/// The reservations of an instance.
#[derive(Debug)]
pub(super) struct Registry {
    /// The places of those that are open or being settled.
    places: KeyedLimit<Key>,
    state: Mutex<Entries>,
    /// Wakes the task that ends them.
    pub(super) changed: Arc<Notify>,
    /// Tells the claims of this instance from those of others.
    pub(super) token: u64,
}

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<u128, Entry>,
    /// The open ones, by their end.
    open: BTreeMap<Due, u128>,
    /// The committed ones, by the end of their answer.
    committed: BTreeMap<Due, u128>,
    next: u64,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Entry {
    Open(Box<Open>),
    /// A commit of it is in progress.
    Claimed {
        domain: u128,
    },
    Committed {
        domain: u128,
        until: Instant,
    },
}

/// What this instance knows of a reservation that is to be committed.
#[derive(Debug)]
pub(super) enum Taken {
    /// It is claimed here for the caller.
    Open(Box<Open>),
    /// It was committed before.
    Committed,
    /// It is not of this instance.
    Unknown,
}

/// What is due next.
#[derive(Debug)]
pub(super) enum Next {
    Ended(u128, Box<Open>),
    At(Instant),
    Nothing,
}

impl Registry {
    /// A place for a reservation of this key. `None` if too many are open, in total or of the key.
    pub(super) fn place(&self, key: Option<Key>) -> Option<KeyedPermit<Key>> {
        self.places.acquire(key)
    }

    /// The end of something that ends at this instant.
    pub(super) fn due(&self, at: Instant) -> Due {
        self.lock().due(at)
    }

    /// Adds an open reservation. `end_all` starts the task that ends them, if none runs.
    pub(super) fn insert(&self, id: u128, open: Open, end_all: impl FnOnce() -> JoinHandle<()>) {
        let mut entries = self.lock();
        entries.open.insert(open.due, id);
        entries.by_id.insert(id, Entry::Open(Box::new(open)));
        if entries.task.as_ref().is_none_or(JoinHandle::is_finished) {
            entries.task = Some(end_all());
        }
        drop(entries);
        self.changed.notify_one();
    }

    /// Claims a reservation of this instance for a commit.
    ///
    /// # Errors
    ///
    /// Returns an error if a commit is in progress, the reservation is not of the domain, or it cannot have used as much. It stays open then.
    pub(super) fn take(&self, id: u128, domain: u128, actual: u64) -> Result<Taken, CallError> {
        let mut entries = self.lock();
        match entries.by_id.get(&id) {
            None => return Ok(Taken::Unknown),
            Some(Entry::Claimed { domain: of } | Entry::Committed { domain: of, .. }) if *of != domain => {}
            Some(Entry::Committed { until, .. }) if *until <= Instant::now() => {}
            Some(Entry::Claimed { .. }) => return Err(CallError::BeingCommitted),
            Some(Entry::Committed { .. }) => return Ok(Taken::Committed),
            Some(Entry::Open(open)) if open.domain != domain || open.ends_at <= Instant::now() => {}
            Some(Entry::Open(open)) if actual > open.reserved.most() => {
                return Err(CallError::ActualTooLarge { actual, most: open.reserved.most() });
            }
            Some(Entry::Open(_)) => {
                if let Some(Entry::Open(open)) = entries.by_id.insert(id, Entry::Claimed { domain }) {
                    entries.open.remove(&open.due);
                    return Ok(Taken::Open(open));
                }
            }
        }
        Err(CallError::UnknownReservation)
    }

    /// Keeps the answer of a commit, or forgets a reservation that has none. Of too many answers the one that ends first is forgotten.
    /// Returns whether there was room.
    pub(super) fn finish(&self, id: u128, domain: u128, answered_until: Option<Instant>) -> bool {
        let mut entries = self.lock();
        entries.by_id.remove(&id);
        let Some(until) = answered_until else { return true };
        let has_room = entries.committed.len() < MAX_RESERVATIONS;
        if !has_room && let Some((_, first)) = entries.committed.pop_first() {
            entries.by_id.remove(&first);
        }
        let due = entries.due(until);
        entries.committed.insert(due, id);
        entries.by_id.insert(id, Entry::Committed { domain, until });
        has_room
    }

    /// Takes the first reservation that has ended, and forgets answers that have.
    pub(super) fn next(&self) -> Next {
        let (mut entries, now) = (self.lock(), Instant::now());
        while let Some(first) = entries.committed.first_entry().filter(|first| first.key().0 <= now) {
            let id = first.remove();
            entries.by_id.remove(&id);
        }
        if let Some(first) = entries.open.first_entry().filter(|first| first.key().0 <= now) {
            let id = first.remove();
            if let Some(Entry::Open(open)) = entries.by_id.remove(&id) {
                return Next::Ended(id, open);
            }
        }
        let ends = [entries.open.first_key_value(), entries.committed.first_key_value()];
        let first = ends.into_iter().flatten().map(|((at, _), _)| *at).min();
        if first.is_none() {
            entries.task = None;
        }
        first.map_or(Next::Nothing, Next::At)
    }

    /// The entries are consistent between any two statements that matter, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn due(&mut self, at: Instant) -> Due {
        self.next = self.next.wrapping_add(1);
        (at, self.next)
    }
}

/// The most open reservations of an instance. One key has at most one in 16 of them.
pub const MAX_RESERVATIONS: usize = 65_536;

impl Default for Registry {
    fn default() -> Self {
        let mut token = [0; 8];
        // Without random numbers no id is made either.
        let _ = getrandom::fill(&mut token);
        Self {
            places: KeyedLimit::new(MAX_RESERVATIONS),
            state: Mutex::default(),
            changed: Arc::default(),
            token: u64::from_ne_bytes(token),
        }
    }
}
