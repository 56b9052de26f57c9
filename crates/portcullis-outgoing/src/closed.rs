//! The keys that answers have closed, in this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::Key;
use tokio::time::Instant;

/// Closed keys, bounded in number. While no key is closed, a look costs one load.
#[derive(Default)]
pub(crate) struct ClosedKeys {
    count: AtomicUsize,
    keys: Mutex<HashMap<Key, Instant>>,
}

impl ClosedKeys {
    /// Until when a key is closed. `None` if it is open at `now`.
    pub(crate) fn until(&self, key: Key, now: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let mut keys = self.lock();
        let until = *keys.get(&key)?;
        if until > now() {
            return Some(until);
        }
        keys.remove(&key);
        self.count.store(keys.len(), Relaxed);
        None
    }

    /// Closes a key until an instant, unless it is closed for longer already. A key that finds no room is closed in the store alone.
    pub(crate) fn close(&self, key: Key, until: Instant, now: Instant) {
        let mut keys = self.lock();
        if keys.len() >= MAX_KEYS && !keys.contains_key(&key) {
            keys.retain(|_, until| *until > now);
        }
        if keys.len() < MAX_KEYS || keys.contains_key(&key) {
            let entry = keys.entry(key).or_insert(until);
            *entry = until.max(*entry);
        }
        self.count.store(keys.len(), Relaxed);
    }

    /// Each entry is consistent by itself, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A few hundred kilobytes.
const MAX_KEYS: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::Secret;

    use super::*;

    fn key(host: usize) -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("host", &host.to_be_bytes());
        hasher.finish().unwrap()
    }

    #[test]
    fn a_key_is_closed_until_the_latest_instant() {
        let (closed, now) = (ClosedKeys::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(closed.until(key(0), || unreachable!("no clock is read")), None);
        closed.close(key(0), after(5), now);
        closed.close(key(0), after(2), now);
        assert_eq!(closed.until(key(0), || after(4)), Some(after(5)));
        assert_eq!(closed.until(key(1), || now), None);
        assert_eq!(closed.until(key(0), || after(5)), None);
        assert_eq!(closed.count.load(Relaxed), 0, "it is forgotten");
    }

    #[test]
    fn the_number_of_closed_keys_is_bounded() {
        let (closed, now) = (ClosedKeys::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        for host in 0..=MAX_KEYS {
            closed.close(key(host), later, now);
        }
        assert_eq!(closed.lock().len(), MAX_KEYS);
        assert_eq!(closed.until(key(MAX_KEYS), || now), None);
        closed.close(key(MAX_KEYS), later + Duration::from_secs(1), later);
        assert_eq!(closed.lock().len(), 1, "those that have passed make room");
    }
}
