//! The shards of a policy, and the locks that a decision takes on them.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};

use portcullis_core::algorithm::State;
use portcullis_core::{Key, Policy, PolicyName, Strategy, Timestamp};
use smallvec::SmallVec;

use crate::budget::{Amount, BytesUsed, Division, SMALL_ENTRY_BYTES, initial_heap_bytes};
use crate::shard::{Access, Bounds, EntryId, Shard, ShardStats};
use crate::stats::MemoryPolicyStats;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::throttle::LogThrottle;

/// The states of one policy, in shards with one lock each.
#[derive(Debug)]
pub(crate) struct Shards {
    policy: PolicyName,
    digest: u128,
    /// The number of policies registered before this one: locks are taken in this order.
    number: u32,
    granted: Amount,
    mutexes: Box<[Mutex<Shard>]>,
    used: Option<Arc<BytesUsed>>,
    overflowed: AtomicU64,
    throttle: LogThrottle,
}

impl Shards {
    pub(crate) fn new(policy: &Policy, number: u32, granted: Amount) -> Self {
        let division = Division::of(granted.bytes, policy.strategy());
        let is_small = granted.keys < SMALLEST_TO_SHARD || division.overflow_states < SHARDS;
        let count = if is_small { 1 } else { SHARDS };
        let used = (initial_heap_bytes(policy.strategy()) > 0).then(Arc::default);
        let keys = match used {
            Some(_) => granted.keys,
            None => granted.keys.min(division.own / SMALL_ENTRY_BYTES),
        };
        let bounds = Bounds {
            keys: keys.div_ceil(count).max(1),
            bytes: granted.bytes,
            shards: count,
            used: used.clone(),
        };
        Self {
            policy: policy.name().clone(),
            digest: policy.digest(),
            number,
            granted,
            mutexes: (0..count).map(|_| Mutex::new(Shard::new(policy.strategy(), bounds.clone()))).collect(),
            used,
            overflowed: AtomicU64::new(0),
            throttle: LogThrottle::default(),
        }
    }

    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// The shard of a key, and its id there. The upper half of the id selects the shard, the lower half is its hash there.
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
    pub(crate) fn shard_key(&self, key: Key) -> ShardKey<'_> {
        let id = key.fingerprint() ^ self.digest;
        ShardKey { policy: self, shard: (id >> 64) as usize & (self.mutexes.len() - 1), id }
    }

    /// Counts a check that used an overflow state, and logs that from time to time. Not to be called under a lock.
    pub(crate) fn count_overflow(&self, now: Timestamp) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        if let Some(checks) = self.throttle.count(now) {
            tracing::warn!(
                policy = %self.policy,
                keys = self.granted.keys,
                bytes = self.granted.bytes,
                checks,
                "the memory store has no room for more keys of this policy: new keys share overflow states; checks counted \
                 since the last such line"
            );
        }
    }

    /// Locks the shards one after another.
    pub(crate) fn stats(&self) -> MemoryPolicyStats {
        let mut all = ShardStats::default();
        for shard in &self.mutexes {
            let stats = lock(shard).stats();
            all.entries += stats.entries;
            all.overflow_states += stats.overflow_states;
            all.overflow_bytes += stats.overflow_bytes;
        }
        let own = self.used.as_ref().map_or(all.entries * SMALL_ENTRY_BYTES, |used| used.get());
        MemoryPolicyStats {
            policy: self.policy.clone(),
            entries: all.entries,
            bytes: own + all.overflow_bytes,
            overflow_states: all.overflow_states,
            overflowed_checks: self.overflowed.load(Ordering::Relaxed),
        }
    }
}

/// The shard that a key belongs to under a policy, and its id there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardKey<'a> {
    pub(crate) policy: &'a Shards,
    shard: usize,
    id: u128,
}

impl ShardKey<'_> {
    fn order(&self) -> LockOrder {
        (self.policy.number, self.shard)
    }
}

/// The shard of one key, locked until the call for this key ends.
#[derive(Debug)]
pub(crate) struct LockedShard<'a>(MutexGuard<'a, Shard>);

impl<'a> LockedShard<'a> {
    pub(crate) fn new(key: &ShardKey<'a>) -> Self {
        Self(lock(&key.policy.mutexes[key.shard]))
    }

    /// Sweeps a few entries, then locates the state of the key, and reserves what a new state takes.
    pub(crate) fn sweep_and_locate(
        &mut self,
        key: &ShardKey<'_>,
        strategy: &Strategy,
        now: Timestamp,
        swept: usize,
    ) -> (EntryId, Access) {
        self.sweep_in_batches(strategy, now, swept);
        self.locate(key.id, strategy, now)
    }

    pub(crate) fn reset(&mut self, key: &ShardKey<'_>) {
        self.remove(key.id);
    }
}

impl Deref for LockedShard<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.0
    }
}

impl DerefMut for LockedShard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.0
    }
}

impl Drop for LockedShard<'_> {
    fn drop(&mut self) {
        self.0.end_decision();
    }
}

/// The shards of one decision, locked until it ends.
#[derive(Debug)]
pub(crate) struct LockedShards<'a> {
    guards: SmallVec<[(LockOrder, MutexGuard<'a, Shard>); 2]>,
}

/// The order in which shards are locked: by policy, then by shard.
type LockOrder = (u32, usize);

/// Where the state of a key under a policy is: the index of the shard among those of the decision, and the entry there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateLocation {
    shard: usize,
    entry: EntryId,
}

impl StateLocation {
    /// Whether the state is shared by keys that did not fit.
    pub(crate) fn is_overflow(self) -> bool {
        self.entry.is_overflow()
    }
}

impl<'a> LockedShards<'a> {
    /// Locks the shards of all `keys`, always in the same order, so that no two calls deadlock.
    pub(crate) fn new(keys: &[ShardKey<'a>]) -> Self {
        let mut keys: SmallVec<[ShardKey<'a>; 2]> = keys.into();
        keys.sort_unstable_by_key(ShardKey::order);
        keys.dedup_by_key(|key| key.order());
        let locked = |key: ShardKey<'a>| (key.order(), lock(&key.policy.mutexes[key.shard]));
        Self { guards: keys.into_iter().map(locked).collect() }
    }

    /// Sweeps a few entries, then locates the state of a key whose shard is locked, and reserves what a new state takes.
    pub(crate) fn sweep_and_locate(
        &mut self,
        key: &ShardKey<'_>,
        strategy: &Strategy,
        now: Timestamp,
        swept: usize,
    ) -> (StateLocation, Access) {
        let order = key.order();
        let index = self.guards.iter().position(|(locked, _)| *locked == order);
        let index = index.expect("every shard of a decision is locked before it is used");
        let (_, shard) = &mut self.guards[index];
        shard.sweep_in_batches(strategy, now, swept);
        let (entry, access) = shard.locate(key.id, strategy, now);
        (StateLocation { shard: index, entry }, access)
    }

    /// The state of an entry that is used in place.
    pub(crate) fn get(&self, location: StateLocation) -> Option<&State> {
        self.guards[location.shard].1.get(location.entry)
    }

    /// Writes the copy of a state back; `None` removes its entry.
    pub(crate) fn replace(&mut self, location: StateLocation, state: Option<&State>) {
        self.guards[location.shard].1.replace(location.entry, state);
    }

    /// Applies `f` to a state that is used in place. `f` returns whether it changed the state, and charges at most `units`.
    pub(crate) fn apply(
        &mut self,
        location: StateLocation,
        strategy: &Strategy,
        now: Timestamp,
        units: u64,
        f: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        self.guards[location.shard].1.apply(location.entry, strategy, now, units, f);
    }
}

impl Drop for LockedShards<'_> {
    fn drop(&mut self) {
        self.guards.iter_mut().for_each(|(_, shard)| shard.end_decision());
    }
}

/// Ignores poisoning: a panic under a lock leaves whole entries, because they are replaced, never written in part.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A power of two, several times the number of threads of a large machine.
const SHARDS: usize = 64;
/// Below this, shards would be so small that one of them would fill by chance long before the others.
const SMALLEST_TO_SHARD: usize = 64 * 1_024;
