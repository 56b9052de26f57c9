//! The keys that are over their limit or locked out.

use portcullis_core::Key;

use super::PolicyId;

/// The keys that are denied until an instant, bounded in number. Keys that are locked out stay before others, then keys with later ends.
#[derive(Debug)]
pub(super) struct Limited {
    entries: Vec<LimitedKey>,
    capacity: usize,
}

/// A key that is denied until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitedKey<P = PolicyId> {
    pub(crate) policy: P,
    pub(crate) key: Key,
    /// Milliseconds since the epoch.
    pub(crate) until: u64,
    pub(crate) is_locked_out: bool,
}

impl LimitedKey {
    fn is_of(&self, policy: PolicyId, key: Key) -> bool {
        self.policy == policy && self.key == key
    }

    fn rank(&self) -> (bool, u64) {
        (self.is_locked_out, self.until)
    }
}

impl Limited {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), capacity }
    }

    pub(super) fn insert(&mut self, new: LimitedKey, now: u64) {
        let same = self.entries.iter().position(|entry| entry.is_of(new.policy, new.key));
        if let Some(entry) = same.and_then(|index| self.entries.get_mut(index)) {
            *entry = new;
            return;
        }
        if self.entries.len() >= self.capacity {
            self.entries.retain(|entry| entry.until > now);
        }
        if self.entries.len() < self.capacity {
            self.entries.push(new);
        } else if let Some(least) = self.entries.iter_mut().min_by_key(|entry| entry.rank())
            && least.rank() < new.rank()
        {
            *least = new;
        }
    }

    /// The key is admitted again.
    pub(super) fn remove(&mut self, policy: PolicyId, key: Key) {
        if let Some(index) = self.entries.iter().position(|entry| entry.is_of(policy, key)) {
            self.entries.swap_remove(index);
        }
    }

    pub(super) fn at(&self, now: u64) -> impl Iterator<Item = &LimitedKey> {
        self.entries.iter().filter(move |entry| entry.until > now)
    }
}

#[cfg(test)]
mod tests {
    use portcullis_core::Secret;

    use super::*;

    fn key(user: u64) -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.finish().unwrap()
    }

    fn entry(user: u64, until: u64, is_locked_out: bool) -> LimitedKey {
        LimitedKey { policy: 0, key: key(user), until, is_locked_out }
    }

    #[test]
    fn flood_of_keys_displaces_no_lock_out() {
        let mut limited = Limited::new(4);
        limited.insert(entry(0, 50, true), 0);
        for user in 1..10_000 {
            limited.insert(entry(user, 100 + user, false), 0);
        }
        assert!(limited.at(0).any(|entry| entry.is_locked_out));
        assert_eq!(limited.at(0).count(), 4);
        // What has ended makes room.
        limited.insert(entry(0, 60_000, false), 50_000);
        assert_eq!(limited.at(50_000).count(), 1);
    }

    #[test]
    fn key_has_one_entry_until_it_is_admitted() {
        let mut limited = Limited::new(4);
        limited.insert(entry(1, 10, false), 0);
        limited.insert(entry(1, 20, true), 0);
        assert_eq!(limited.at(15).collect::<Vec<_>>(), [&entry(1, 20, true)]);
        limited.remove(0, key(2));
        assert_eq!(limited.at(15).count(), 1);
        limited.remove(0, key(1));
        assert_eq!(limited.at(0).count(), 0);
    }
}
