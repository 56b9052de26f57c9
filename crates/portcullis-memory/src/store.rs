//! The store.

use std::iter;

use portcullis_core::algorithm::State;
use portcullis_core::store::protocol::{self, States};
use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Clock, Decision, Key, Policy, Receipt, Settlement, StoreError, Strategy, Timestamp};
use smallvec::SmallVec;

use crate::policies::Policies;
use crate::shard::Access;
use crate::shards::{LockedShards, ShardKey, Shards, StateLocation};
use crate::{MemoryPolicyStats, MemoryStats, MemoryStoreBuilder, SystemClock};

/// A store that keeps its state in this process.
///
/// Its answers are always ready: none of its futures has to be awaited. Share one store between layers through an `Arc`.
#[derive(Debug)]
pub struct MemoryStore<C = SystemClock> {
    policies: Policies,
    clock: C,
    swept_per_check: usize,
}

impl MemoryStore {
    /// Creates a store for 250 000 keys of each of up to 64 policies, on the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts a store that differs from the default.
    ///
    /// ```
    /// use portcullis_memory::MemoryStore;
    ///
    /// let store = MemoryStore::builder().capacity(10_000).build();
    /// assert_eq!(store.stats().entries, 0);
    /// ```
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    pub(crate) fn new_with(policies: Policies, clock: C, swept_per_check: usize) -> Self {
        Self { policies, clock, swept_per_check }
    }

    /// Returns how full the store is, and how many checks used an overflow state.
    ///
    /// Locks the shards one after another.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats::of(self.policies.iter())
    }

    /// Returns how full the store is for each of its policies, in no particular order.
    ///
    /// ```
    /// use portcullis_core::store::Store;
    /// use portcullis_core::{Policy, Quota};
    /// use portcullis_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.register(&Policy::gcra("login", Quota::per_minute(5)))?;
    /// let stats = store.policy_stats();
    /// assert_eq!((stats[0].policy.as_str(), stats[0].entries), ("login", 0));
    /// # Ok::<(), portcullis_core::StoreError>(())
    /// ```
    ///
    /// Locks the shards one after another.
    pub fn policy_stats(&self) -> Vec<MemoryPolicyStats> {
        self.policies.iter().map(Shards::stats).collect()
    }

    /// Locks the states of the keys, each under its policy, for a call at the present instant.
    fn lock<'c>(
        &self,
        keys: impl Iterator<Item = (&'c Policy, Key)> + Clone,
    ) -> Result<CallStates<'_>, StoreError> {
        let mut shard_keys: SmallVec<[ShardKey<'_>; 2]> = SmallVec::new();
        for (policy, key) in keys.clone() {
            shard_keys.push(self.policies.find_or_register(policy)?.shard_key(key));
        }
        let mut shards = LockedShards::new(&shard_keys);
        let now = self.clock.now();
        let mut states = SmallVec::new();
        for ((policy, _), key) in keys.zip(shard_keys) {
            let strategy = policy.strategy();
            let (location, access) = shards.sweep_and_locate(&key, strategy, now, self.swept_per_check);
            states.push(LocatedState { policy: key.policy, strategy: *strategy, location, access });
        }
        Ok(CallStates { shards, states, now })
    }

    fn lock_for(&self, receipt: &Receipt) -> Result<CallStates<'_>, StoreError> {
        self.lock(iter::once((receipt.policy(), receipt.key())))
    }
}

/// The states of one call, in shards that are locked until it ends.
struct CallStates<'a> {
    shards: LockedShards<'a>,
    states: SmallVec<[LocatedState<'a>; 2]>,
    now: Timestamp,
}

struct LocatedState<'a> {
    policy: &'a Shards,
    strategy: Strategy,
    location: StateLocation,
    access: Access,
}

impl CallStates<'_> {
    /// Unlocks the shards, then counts the states that are shared because the store is full, and logs if a line is due.
    fn unlock(self) {
        let Self { shards, states, now } = self;
        drop(shards);
        for state in states.iter().filter(|state| state.location.is_overflow()) {
            state.policy.count_overflow(now);
        }
    }
}

impl States for CallStates<'_> {
    fn get(&self, index: usize) -> Option<&State> {
        let LocatedState { location, access, .. } = &self.states[index];
        match access {
            Access::Copied(state) => state.as_ref(),
            Access::InPlace => self.shards.get(*location),
        }
    }

    fn change(&mut self, index: usize, units: u64, f: impl FnOnce(&mut Option<State>) -> bool) {
        let LocatedState { strategy, location, access, .. } = &mut self.states[index];
        match access {
            Access::Copied(state) => {
                if f(state) {
                    self.shards.replace(*location, state.as_ref());
                }
            }
            Access::InPlace => self.shards.apply(*location, strategy, self.now, units, f),
        }
    }

    /// Two keys that do not fit may share one overflow state: their costs add up.
    fn is_same(&self, index: usize, other: usize) -> bool {
        self.states[index].location == self.states[other].location
    }

    /// The charge that a receipt proves may have been made to the key's own state, which has expired since.
    fn is_shared(&self, index: usize) -> bool {
        self.states[index].location.is_overflow()
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let keys = checks.iter().map(|check| (&check.policy, check.key));
        StoreFuture::ready(self.lock(keys).map(|mut states| {
            let outcome = protocol::check(checks, states.now, &mut states);
            states.unlock();
            outcome
        }))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        StoreFuture::ready(self.lock_for(&receipt).map(|mut states| {
            let decision = protocol::refund(&receipt, states.now, &mut states);
            states.unlock();
            decision
        }))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        StoreFuture::ready(self.lock_for(&receipt).map(|mut states| {
            let settlement = protocol::settle(receipt, cost, states.now, &mut states);
            states.unlock();
            settlement
        }))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        if let Some(shards) = self.policies.find(policy) {
            let key = shards.shard_key(key);
            LockedShards::new(&[key]).remove(&key);
        }
        StoreFuture::ready(Ok(()))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.policies.find_or_register(policy).map(|_| ())
    }
}
