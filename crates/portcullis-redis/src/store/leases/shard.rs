//! A part of the leased keys, behind one lock.

use std::mem;
use std::time::Duration;

use portcullis_core::lease::{KeyLease, Returned, Sizing};
use portcullis_core::store::Check;
use portcullis_core::{Key, Policy};

/// Sets of a few entries each, allocated with the first key.
#[derive(Debug, Default)]
pub(super) struct Shard {
    entries: Vec<Option<Entry>>,
}

/// A key under a policy.
#[derive(Debug)]
pub(super) struct Entry {
    id: u128,
    pub(super) policy: Policy,
    pub(super) key: Key,
    pub(super) lease: KeyLease,
    pub(super) sizing: Sizing,
    /// The calls that have asked for a lease so far.
    asks: u64,
    /// The units of the latest of them that requests wait for.
    claimed: u64,
}

/// Identifies the state of a key under a policy.
pub(super) fn id(policy: &Policy, key: Key) -> u128 {
    policy.digest() ^ key.fingerprint()
}

impl Shard {
    pub(super) fn find(&mut self, hash: u64, id: u128) -> Option<&mut Entry> {
        let set = self.entries.get_mut(set(hash))?;
        set.iter_mut().flatten().find(|entry| entry.id == id)
    }

    /// Returns the entry of a check; `None` if all entries of its set are in lease.
    pub(super) fn find_or_insert(
        &mut self,
        hash: u64,
        check: &Check,
        max: u64,
        now: Duration,
    ) -> Option<&mut Entry> {
        if self.entries.is_empty() {
            self.entries.resize_with(SETS * WAYS, || None);
        }
        let (set, id) = (self.entries.get_mut(set(hash))?, id(&check.policy, check.key));
        let known = set.iter().position(|entry| entry.as_ref().is_some_and(|entry| entry.id == id));
        let index = match known {
            Some(index) => index,
            None => replaceable(set, now)?,
        };
        let entry = set[index].get_or_insert_with(|| Entry::new(id, check, max, now));
        if entry.id != id {
            *entry = Entry::new(id, check, max, now);
        }
        Some(entry)
    }

    pub(super) fn entries(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().flatten()
    }
}

impl Entry {
    fn new(id: u128, check: &Check, max: u64, now: Duration) -> Self {
        let lease = KeyLease::new(*check.policy.strategy(), max);
        let (policy, key, sizing) = (check.policy.clone(), check.key, Sizing::new(now));
        Self { id, policy, key, lease, sizing, asks: 0, claimed: 0 }
    }

    /// Changes the policy to that of a check. Returns what is left of a lease that has expired or was charged under another quota,
    /// such as that of another plan, with the policy of its charge: under a slower rate a refund would free more than was charged.
    pub(super) fn adapt(&mut self, check: &Check, max: u64, now: Duration) -> Option<(Policy, Returned)> {
        let rest = self.lease.adapt(check.policy.strategy(), max).or_else(|| self.lease.take_expired(now));
        let former =
            (self.policy != check.policy).then(|| mem::replace(&mut self.policy, check.policy.clone()));
        rest.map(|rest| (former.unwrap_or_else(|| self.policy.clone()), rest))
    }

    /// Begins a call that costs a request `cost` units. Returns the units that it asks for in addition, for a lease.
    pub(super) fn ask(&mut self, cost: u64, now: Duration) -> u64 {
        let units = self.lease.ask(self.sizing.size(cost, self.lease.room(), now));
        if units > 0 {
            (self.asks, self.claimed) = (self.asks.wrapping_add(1), 0);
        }
        units
    }

    /// Lets a request wait for `cost` of the units that a call asks for, unless others do. Returns the number of the call.
    pub(super) fn claim(&mut self, cost: u64) -> Option<u64> {
        let claimed = self.claimed.saturating_add(cost);
        if claimed > self.lease.asked() {
            return None;
        }
        self.claimed = claimed;
        Some(self.asks)
    }

    /// Whether the call with this number is not answered yet.
    pub(super) fn is_asking(&self, call: u64) -> bool {
        self.lease.asked() > 0 && self.asks == call
    }
}

/// The entry that a new key replaces.
fn replaceable(set: &[Option<Entry>], now: Duration) -> Option<usize> {
    let free = set.iter().enumerate().filter_map(|(index, entry)| match entry {
        None => Some((0, index)),
        Some(entry) if entry.lease.is_idle() => Some((entry.sizing.recent_requests(now) + 1, index)),
        Some(_) => None,
    });
    free.min().map(|(_, index)| index)
}

fn set(hash: u64) -> std::ops::Range<usize> {
    let set = usize::try_from(hash % SETS as u64).unwrap_or_default();
    set * WAYS..(set + 1) * WAYS
}

/// The number of sets: 4 096 keys in 64 shards.
const SETS: usize = 8;
/// The number of entries in a set.
const WAYS: usize = 8;
/// The number of entries of a shard.
#[cfg(test)]
pub(super) const CAPACITY: usize = SETS * WAYS;
