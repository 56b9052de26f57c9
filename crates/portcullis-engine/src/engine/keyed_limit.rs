//! Limits what is in progress, in total and per key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::Key;

/// A number of permits, of which one key gets only a part. Clones share them.
#[derive(Clone, Debug)]
pub struct KeyedLimit<K: Copy + Eq + Hash>(Arc<Mutex<Counts<K>>>);

#[derive(Debug)]
struct Counts<K> {
    limit: usize,
    all: usize,
    /// Only keys with permits.
    by_key: HashMap<K, usize>,
}

/// One permit, released on drop.
#[derive(Debug)]
#[must_use]
pub struct KeyedPermit<K: Copy + Eq + Hash>(Box<(KeyedLimit<K>, Option<K>)>);

/// The permit of a request that waits for a slot, a window, a look-up or the inner service.
pub type WaitPermit = KeyedPermit<Key>;

/// The permit of a request that has looked and is not settled yet: by the digest of the policy, and its key.
pub type UnsettledPermit = KeyedPermit<(u128, Key)>;

impl<K: Copy + Eq + Hash> KeyedLimit<K> {
    /// A limit of `limit` permits in total.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Counts { limit, all: 0, by_key: HashMap::new() })))
    }

    /// Sets the number of permits in total. Permits that are held stay.
    pub fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// How many permits are held now.
    pub fn held(&self) -> usize {
        self.lock().all
    }

    /// Whether there would be no permit for this key.
    pub fn is_full(&self, key: Option<K>) -> bool {
        self.lock().is_full(key, usize::MAX)
    }

    /// Returns a permit that is counted by `key`, if there is one that is not shared. `None` if too many are held already, in total
    /// or with this key.
    pub fn acquire(&self, key: Option<K>) -> Option<KeyedPermit<K>> {
        self.acquire_below(key, usize::MAX)
    }

    /// Like [`acquire`](Self::acquire), but also `None` if `bound` permits with this key are held.
    pub(crate) fn acquire_below(&self, key: Option<K>, bound: usize) -> Option<KeyedPermit<K>> {
        let mut counts = self.lock();
        if counts.is_full(key, bound) {
            return None;
        }
        counts.all = counts.all.saturating_add(1);
        if let Some(key) = key {
            let with_key = counts.by_key.entry(key).or_default();
            *with_key = with_key.saturating_add(1);
        }
        Some(KeyedPermit(Box::new((self.clone(), key))))
    }

    /// The counts are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Counts<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Counts<K> {
    fn is_full(&self, key: Option<K>, bound: usize) -> bool {
        let bound = bound.min((self.limit / KEY_DIVISOR).max(1));
        let with_key = |key| self.by_key.get(&key).copied().unwrap_or_default();
        self.all >= self.limit || key.is_some_and(|key| with_key(key) >= bound)
    }
}

impl<K: Copy + Eq + Hash> Drop for KeyedPermit<K> {
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
pub const MAX_WAITING_REQUESTS: usize = 4_096;

/// Each may end in a task that charges it, with a few kilobytes.
pub const MAX_UNSETTLED: usize = 16_384;

/// One key may have one part in this many of all permits.
const KEY_DIVISOR: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_gets_a_sixteenth_of_permits() {
        for most in [MAX_WAITING_REQUESTS, MAX_UNSETTLED] {
            let limit = KeyedLimit::new(most);
            let of_one: Vec<_> = std::iter::from_fn(|| limit.acquire(Some(0))).collect();
            assert_eq!(of_one.len(), most / 16);
            assert!(limit.is_full(Some(0)) && !limit.is_full(Some(1)) && !limit.is_full(None));
            let of_others: Vec<_> = (1..).map_while(|key| limit.acquire(Some(key))).collect();
            assert_eq!((of_others.len(), limit.held()), (most - most / 16, most));
            assert!(limit.acquire(None).is_none());
            drop(of_one);
            assert!(limit.acquire(Some(0)).is_some());
            drop(of_others);
            let counts = limit.lock();
            assert_eq!((counts.all, counts.by_key.len()), (0, 0), "released permits leave no entry");
        }
    }

    #[test]
    fn permits_without_key_count_in_total() {
        let limit = KeyedLimit::new(20);
        let shared: Vec<_> = std::iter::from_fn(|| limit.acquire(None)).collect();
        assert_eq!((shared.len(), limit.lock().by_key.len()), (20, 0));
        drop(shared);
        let permit = limit.acquire(Some(0));
        assert!(permit.is_some() && limit.acquire(Some(0)).is_none(), "each key gets at least one");
        limit.set_limit(0);
        assert!(limit.acquire(Some(1)).is_none());
    }

    #[test]
    fn lower_bound_of_key_applies() {
        let limit = KeyedLimit::new(MAX_UNSETTLED);
        let held = [
            limit.acquire_below(Some(0), 2),
            limit.acquire_below(Some(0), 2),
            limit.acquire_below(Some(1), 2),
        ];
        assert!(held.iter().all(Option::is_some));
        assert!(limit.acquire_below(Some(0), 2).is_none() && limit.acquire_below(Some(2), 0).is_none());
        drop(held);
        assert!(limit.acquire_below(Some(0), 1).is_some());
        assert_eq!((limit.held(), limit.lock().by_key.len()), (0, 0));
    }
}
