//! Requests that wait, counted in all and per key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::Key;

/// The requests of all layers of a limiter that wait for a slot, a look-up or the inner service, bounded in number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    most: usize,
    all: usize,
    /// Only keys that wait.
    by_key: HashMap<Key, usize>,
}

/// The right to wait. Others may, once it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct WaitPermit(Box<(Waiters, Option<Key>)>);

impl Waiters {
    pub(crate) fn set_most(&self, most: usize) {
        self.lock().most = most;
    }

    /// Whether no other request with this key may wait.
    pub(crate) fn is_full(&self, key: Option<Key>) -> bool {
        let waiting = self.lock();
        let of_key = key.and_then(|key| waiting.by_key.get(&key));
        waiting.all >= waiting.most || of_key.is_some_and(|of_key| *of_key >= waiting.most_of_a_key())
    }

    /// Lets a request wait that is counted by `key`, if it has one of its own. `None` if too many wait already: in all, or
    /// with this key.
    pub(crate) fn enter(&self, key: Option<Key>) -> Option<WaitPermit> {
        let mut waiting = self.lock();
        if waiting.all >= waiting.most {
            return None;
        }
        if let Some(key) = key {
            let most = waiting.most_of_a_key();
            let of_key = waiting.by_key.entry(key).or_default();
            if *of_key >= most {
                return None;
            }
            *of_key = of_key.saturating_add(1);
        }
        waiting.all = waiting.all.saturating_add(1);
        Some(WaitPermit(Box::new((self.clone(), key))))
    }

    /// The counts agree between any two statements here, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn most_of_a_key(&self) -> usize {
        (self.most / SHARE_OF_A_KEY).max(1)
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self { most: MOST, all: 0, by_key: HashMap::new() }
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        let (waiters, key) = &*self.0;
        let mut waiting = waiters.lock();
        waiting.all = waiting.all.saturating_sub(1);
        if let Some(key) = key
            && let Entry::Occupied(mut of_key) = waiting.by_key.entry(*key)
        {
            match of_key.get().saturating_sub(1) {
                0 => drop(of_key.remove()),
                left => *of_key.get_mut() = left,
            }
        }
    }
}

/// A request that waits takes a few kilobytes, so that these are some megabytes.
pub(crate) const MOST: usize = 4_096;

/// One key may have this part of all that may wait.
const SHARE_OF_A_KEY: usize = 16;

#[cfg(test)]
mod tests {
    use portcullis_core::Secret;

    use super::*;

    fn key(user: usize) -> Option<Key> {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.finish().ok()
    }

    #[test]
    fn a_key_has_a_sixteenth_of_all() {
        let waiters = Waiters::default();
        let of_one: Vec<_> = std::iter::from_fn(|| waiters.enter(key(0))).collect();
        assert_eq!(of_one.len(), MOST / 16);
        let of_others: Vec<_> = (1..).map_while(|user| waiters.enter(key(user))).collect();
        assert_eq!(of_others.len(), MOST - MOST / 16);
        assert!(waiters.enter(None).is_none());
        drop(of_one);
        assert!(waiters.enter(key(0)).is_some());
        drop(of_others);
        let waiting = waiters.lock();
        assert_eq!((waiting.all, waiting.by_key.len()), (0, 0), "nothing is kept of those who have left");
    }

    #[test]
    fn requests_without_a_key_of_their_own_count_in_all_only() {
        let waiters = Waiters::default();
        waiters.set_most(20);
        let shared: Vec<_> = std::iter::from_fn(|| waiters.enter(None)).collect();
        assert_eq!((shared.len(), waiters.lock().by_key.len()), (20, 0));
        drop(shared);
        let permit = waiters.enter(key(0));
        assert!(permit.is_some() && waiters.enter(key(0)).is_none(), "at least one of a key may wait");
        waiters.set_most(0);
        assert!(waiters.enter(key(1)).is_none());
    }
}
