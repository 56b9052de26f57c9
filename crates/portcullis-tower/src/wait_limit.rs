//! Limits the requests that wait, in total and per key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::Key;

/// The requests of all layers of a limiter that wait for a slot, a window, a look-up or the inner service, bounded in number.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitLimit(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    limit: usize,
    all: usize,
    /// Only keys with waiting requests.
    by_key: HashMap<Key, usize>,
}

/// The permit of one waiting request, released on drop.
#[derive(Debug)]
#[must_use]
pub(crate) struct WaitPermit(Box<(WaitLimit, Option<Key>)>);

impl WaitLimit {
    pub(crate) fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// The requests that wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().all
    }

    /// Whether another request with this key would get no permit.
    pub(crate) fn is_full(&self, key: Option<Key>) -> bool {
        let counts = self.lock();
        let with_key = key.and_then(|key| counts.by_key.get(&key));
        counts.all >= counts.limit || with_key.is_some_and(|with_key| *with_key >= counts.limit_per_key())
    }

    /// Returns a permit for a request that is counted by `key`, if it has a key that is not shared. `None` if too many requests
    /// wait already, in total or with this key.
    pub(crate) fn acquire(&self, key: Option<Key>) -> Option<WaitPermit> {
        let mut counts = self.lock();
        if counts.all >= counts.limit {
            return None;
        }
        if let Some(key) = key {
            let limit = counts.limit_per_key();
            let with_key = counts.by_key.entry(key).or_default();
            if *with_key >= limit {
                return None;
            }
            *with_key = with_key.saturating_add(1);
        }
        counts.all = counts.all.saturating_add(1);
        Some(WaitPermit(Box::new((self.clone(), key))))
    }

    /// The counts are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn limit_per_key(&self) -> usize {
        (self.limit / KEY_DIVISOR).max(1)
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self { limit: DEFAULT_LIMIT, all: 0, by_key: HashMap::new() }
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        let (limit, key) = &*self.0;
        let mut counts = limit.lock();
        counts.all = counts.all.saturating_sub(1);
        if let Some(key) = key
            && let Entry::Occupied(mut with_key) = counts.by_key.entry(*key)
        {
            match with_key.get().saturating_sub(1) {
                0 => drop(with_key.remove()),
                left => *with_key.get_mut() = left,
            }
        }
    }
}

/// A waiting request takes a few kilobytes, so this limit is a few megabytes.
pub(crate) const DEFAULT_LIMIT: usize = 4_096;

/// One key may have one part in this many of all permits.
const KEY_DIVISOR: usize = 16;

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
    fn a_key_gets_at_most_a_sixteenth_of_the_permits() {
        let limit = WaitLimit::default();
        let of_one: Vec<_> = std::iter::from_fn(|| limit.acquire(key(0))).collect();
        assert_eq!(of_one.len(), DEFAULT_LIMIT / 16);
        let of_others: Vec<_> = (1..).map_while(|user| limit.acquire(key(user))).collect();
        assert_eq!(of_others.len(), DEFAULT_LIMIT - DEFAULT_LIMIT / 16);
        assert!(limit.acquire(None).is_none());
        drop(of_one);
        assert!(limit.acquire(key(0)).is_some());
        drop(of_others);
        let counts = limit.lock();
        assert_eq!((counts.all, counts.by_key.len()), (0, 0), "released permits leave no entry");
    }

    #[test]
    fn requests_without_their_own_key_count_in_total_only() {
        let limit = WaitLimit::default();
        limit.set_limit(20);
        let shared: Vec<_> = std::iter::from_fn(|| limit.acquire(None)).collect();
        assert_eq!((shared.len(), limit.lock().by_key.len()), (20, 0));
        drop(shared);
        let permit = limit.acquire(key(0));
        assert!(permit.is_some() && limit.acquire(key(0)).is_none(), "at least one request per key may wait");
        limit.set_limit(0);
        assert!(limit.acquire(key(1)).is_none());
    }
}
