//! The grants that this process has seen.
//!
//! The memory is bounded. A random hash chooses a set of eight entries for each key. A new entry replaces the one that ends first, which
//! costs one more call at the next check of its key and nothing else.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use portcullis_core::{Key, Policy};

use crate::lock::lock;
use crate::protocol::wire::GrantNumbers;

/// The grants that replies had last, by policy and key.
#[derive(Debug)]
pub(crate) struct SeenGrants {
    /// The number of entries: while there are none, no lock is taken.
    count: AtomicUsize,
    shards: [Mutex<Vec<Option<Entry>>>; SHARDS],
    hasher: RandomState,
}

/// The policy of the record, whatever the length of its window, and its key.
type Id = (u128, u128);

type Entry = (Id, GrantNumbers);

impl SeenGrants {
    pub(crate) fn new() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { count: AtomicUsize::new(0), shards, hasher: RandomState::new() }
    }

    /// Whether no grant is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// The grant that was seen last, or zeros.
    pub(super) fn get(&self, policy: &Policy, key: Key) -> GrantNumbers {
        if self.is_empty() {
            return NONE;
        }
        let id = (policy.override_digest(), key.fingerprint());
        let (shard, set) = self.places(id);
        let entries = lock(&self.shards[shard]);
        let set = entries.get(set).unwrap_or_default();
        set.iter().flatten().find(|entry| entry.0 == id).map_or(NONE, |entry| entry.1)
    }

    /// Remembers the grant of a reply, or that there is none.
    pub(in crate::store) fn set(&self, policy: &Policy, key: Key, grant: GrantNumbers) {
        let is_none = grant == NONE;
        if is_none && self.count.load(Relaxed) == 0 {
            return;
        }
        let id = (policy.override_digest(), key.fingerprint());
        let (shard, set) = self.places(id);
        let mut entries = lock(&self.shards[shard]);
        if entries.is_empty() && !is_none {
            entries.resize(SETS * WAYS, None);
        }
        let Some(set) = entries.get_mut(set) else { return };
        let same = set.iter().position(|entry| entry.is_some_and(|entry| entry.0 == id));
        let ends = |index: &usize| set[*index].map_or(0, |(_, [end, ..])| end);
        let Some(place) = same.or_else(|| (0..set.len()).min_by_key(ends).filter(|_| !is_none)) else {
            return;
        };
        let former = std::mem::replace(&mut set[place], (!is_none).then_some((id, grant)));
        match (former.is_some(), is_none) {
            (false, false) => drop(self.count.fetch_add(1, Relaxed)),
            (true, true) => drop(self.count.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// The shard of a key, and the indices of its set.
    fn places(&self, id: Id) -> (usize, std::ops::Range<usize>) {
        let hash = self.hasher.hash_one(id);
        let [shard, set] = [hash % SHARDS as u64, hash / SHARDS as u64 % SETS as u64];
        let set = usize::try_from(set).unwrap_or_default();
        (usize::try_from(shard).unwrap_or_default(), set * WAYS..(set + 1) * WAYS)
    }
}

/// No grant.
pub(super) const NONE: GrantNumbers = [0; 5];
/// The number of shards, each with a lock of its own.
const SHARDS: usize = 16;
/// The number of sets in a shard.
const SETS: usize = 32;
/// The number of entries in a set.
const WAYS: usize = 8;
/// The most grants that are remembered: 4 096.
#[cfg(test)]
const MAX: usize = SHARDS * SETS * WAYS;

#[cfg(test)]
mod tests {
    use portcullis_core::Quota;

    use super::*;
    use crate::store::tests::key;

    const API: Policy = Policy::gcra("api", Quota::per_minute(5)).allow_overrides();

    fn until(end: u64) -> GrantNumbers {
        [end, 60, 7, 60, 0]
    }

    #[test]
    fn grant_is_remembered_until_there_is_none() {
        let seen = SeenGrants::new();
        let ada = key(&["ada"]);
        seen.set(&API, ada, NONE);
        assert_eq!(seen.get(&API, ada), NONE);
        for end in [7, 3] {
            seen.set(&API, ada, until(end));
            assert_eq!(seen.get(&API, ada), until(end));
        }
        let other = Policy::gcra("other", Quota::per_minute(5));
        assert_eq!((seen.get(&API, key(&["grace"])), seen.get(&other, ada)), (NONE, NONE));
        seen.set(&API, ada, NONE);
        assert_eq!((seen.get(&API, ada), seen.count.load(Relaxed)), (NONE, 0));
    }

    #[test]
    fn full_memory_replaces_what_ends_first() {
        let seen = SeenGrants::new();
        let keys: Vec<_> = (0..3 * MAX).map(|user| key(&[&user.to_string()])).collect();
        for (end, key) in (1..).zip(&keys) {
            seen.set(&API, *key, until(end));
        }
        let kept = keys.iter().filter(|key| seen.get(&API, **key) != NONE).count();
        assert_eq!(kept, seen.count.load(Relaxed));
        assert!((MAX / 2..=MAX).contains(&kept), "{kept}");
        assert_eq!(seen.get(&API, keys[3 * MAX - 1]), until(3 * MAX as u64));
    }
}
