//! Limits the requests whose outcome is unknown and that are charged afterwards.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::{Key, Policy};

/// The requests of all layers of a limiter that have looked and are not settled yet, bounded in number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsettled(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Only keys with unsettled requests.
    by_key: HashMap<Id, usize>,
}

/// The digest of a policy, and a key.
type Id = (u128, Key);

/// The permit of one unsettled request, released on drop.
#[derive(Debug)]
#[must_use]
pub(crate) struct UnsettledPermit {
    unsettled: Unsettled,
    id: Id,
}

impl Unsettled {
    /// Returns a permit for a request, unless `bound` requests with its key are unsettled under its policy, or too many in all.
    pub(crate) fn acquire(&self, policy: &Policy, key: Key, bound: usize) -> Option<UnsettledPermit> {
        let id = (policy.digest(), key);
        let mut counts = self.lock();
        let held = counts.by_key.get(&id).copied().unwrap_or_default();
        if held >= bound.min(MAX_PER_KEY) || counts.all >= MAX_IN_ALL {
            return None;
        }
        counts.all = counts.all.saturating_add(1);
        counts.by_key.insert(id, held.saturating_add(1));
        Some(UnsettledPermit { unsettled: self.clone(), id })
    }

    /// The counts are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnsettledPermit {
    fn drop(&mut self) {
        let mut counts = self.unsettled.lock();
        counts.all = counts.all.saturating_sub(1);
        if let Entry::Occupied(mut held) = counts.by_key.entry(self.id) {
            match held.get().saturating_sub(1) {
                0 => drop(held.remove()),
                left => *held.get_mut() = left,
            }
        }
    }
}

/// Each may end in a task that charges it, with a few kilobytes.
const MAX_IN_ALL: usize = 16_384;

/// One key may have one part in 16 of all permits.
const MAX_PER_KEY: usize = MAX_IN_ALL / 16;

#[cfg(test)]
mod tests {
    use portcullis_core::{Quota, Secret};

    use super::*;

    fn key(user: usize) -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.finish().unwrap()
    }

    #[test]
    fn unsettled_requests_are_bounded_per_policy_and_key() {
        let unsettled = Unsettled::default();
        let [one, other] = ["one", "other"].map(|name| Policy::gcra(name, Quota::per_minute(1)));
        let acquire = |policy, user, bound| unsettled.acquire(policy, key(user), bound);
        let held = [acquire(&one, 0, 2), acquire(&one, 0, 2), acquire(&one, 1, 2), acquire(&other, 0, 2)];
        assert!(held.iter().all(Option::is_some));
        assert!(acquire(&one, 0, 2).is_none() && acquire(&one, 2, 0).is_none());
        drop(held);
        assert!(acquire(&one, 0, 1).is_some());
        let counts = unsettled.lock();
        assert_eq!((counts.all, counts.by_key.len()), (0, 0), "settled requests leave no entry");
    }

    #[test]
    fn unsettled_requests_are_bounded_in_all() {
        let unsettled = Unsettled::default();
        let policy = Policy::gcra("one", Quota::per_minute(1));
        let acquire = |user| unsettled.acquire(&policy, key(user), usize::MAX);
        let of_one: Vec<_> = std::iter::from_fn(|| acquire(0)).collect();
        let of_others: Vec<_> = (1..).map_while(acquire).collect();
        assert_eq!((of_one.len(), of_others.len()), (MAX_PER_KEY, MAX_IN_ALL - MAX_PER_KEY));
        drop(of_one);
        assert!(acquire(0).is_some());
    }
}
