//! The tables of a policy, and the locks that a decision takes on them.

use std::sync::{Arc, PoisonError};

use portcullis_core::algorithm::State;
use portcullis_core::{Key, Policy, PolicyName, Strategy, Timestamp};
use smallvec::SmallVec;

use crate::MemoryPolicyStats;
use crate::budget::{Amount, BytesUsed, Division, ENTRY_BYTES, initial_heap_bytes};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::table::{Bounds, Slot, Table, TableStats};
use crate::throttle::LogThrottle;

/// The states of one policy, in tables with one lock each.
#[derive(Debug)]
pub(crate) struct Shards {
    policy: PolicyName,
    digest: u128,
    /// The number of policies registered before this one: locks are taken in this order.
    number: u32,
    granted: Amount,
    tables: Box<[Mutex<Table>]>,
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
            None => granted.keys.min(division.own / ENTRY_BYTES),
        };
        let bounds = Bounds {
            keys: keys.div_ceil(count).max(1),
            bytes: granted.bytes,
            tables: count,
            used: used.clone(),
        };
        Self {
            policy: policy.name().clone(),
            digest: policy.digest(),
            number,
            granted,
            tables: (0..count).map(|_| Mutex::new(Table::new(bounds.clone()))).collect(),
            used,
            overflowed: AtomicU64::new(0),
            throttle: LogThrottle::default(),
        }
    }

    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// The table for a key, and its id there. The upper half of the id selects the table, the lower half is its hash there.
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
    pub(crate) fn target(&self, key: Key) -> Target<'_> {
        let id = key.fingerprint() ^ self.digest;
        Target { shards: self, table: (id >> 64) as usize & (self.tables.len() - 1), id }
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

    /// Locks the tables one after another.
    pub(crate) fn stats(&self) -> MemoryPolicyStats {
        let mut all = TableStats::default();
        for table in &self.tables {
            let held = lock(table).stats();
            all.entries += held.entries;
            all.overflow_states += held.overflow_states;
            all.overflow_bytes += held.overflow_bytes;
        }
        let own = self.used.as_ref().map_or(all.entries * ENTRY_BYTES, |used| used.get());
        MemoryPolicyStats {
            policy: self.policy.clone(),
            entries: all.entries,
            bytes: own + all.overflow_bytes,
            overflow_states: all.overflow_states,
            overflowed_checks: self.overflowed.load(Ordering::Relaxed),
        }
    }
}

/// The table that a key belongs to, and its id there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) shards: &'a Shards,
    table: usize,
    id: u128,
}

impl Target<'_> {
    fn order(&self) -> LockOrder {
        (self.shards.number, self.table)
    }
}

/// The tables of one decision.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    tables: SmallVec<[(LockOrder, MutexGuard<'a, Table>); 2]>,
}

/// The order in which tables are locked: by policy, then by table.
type LockOrder = (u32, usize);

/// Where the state of a key under a policy is: the index of the decision's table, and the slot in that table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateLocation {
    table: usize,
    slot: Slot,
}

impl StateLocation {
    /// Whether the state is shared by keys that did not fit.
    pub(crate) fn is_overflow(self) -> bool {
        matches!(self.slot, Slot::Overflow(_))
    }
}

impl<'a> Locked<'a> {
    /// Locks the tables of all `targets`, always in the same order, so that no two calls deadlock.
    pub(crate) fn new(targets: &[Target<'a>]) -> Self {
        let mut targets: SmallVec<[Target<'a>; 2]> = targets.into();
        targets.sort_unstable_by_key(Target::order);
        targets.dedup_by_key(|target| target.order());
        let locked = |target: Target<'a>| (target.order(), lock(&target.shards.tables[target.table]));
        Self { tables: targets.into_iter().map(locked).collect() }
    }

    /// Sweeps a few entries, then locates the state of a key whose table is locked.
    pub(crate) fn locate(
        &mut self,
        target: &Target<'_>,
        strategy: &Strategy,
        now: Timestamp,
        swept: usize,
    ) -> StateLocation {
        let order = target.order();
        let table = self.tables.iter().position(|(locked, _)| *locked == order);
        let table = table.expect("every table of a decision is locked before it is used");
        let (_, found) = &mut self.tables[table];
        found.sweep(now, swept);
        StateLocation { table, slot: found.slot(target.id, strategy, now) }
    }

    pub(crate) fn get(&self, location: StateLocation) -> Option<&State> {
        self.tables[location.table].1.get(location.slot)
    }

    /// Changes a state in place, where `change` returns whether it did; `units` are those that it charges.
    pub(crate) fn change(
        &mut self,
        location: StateLocation,
        strategy: &Strategy,
        now: Timestamp,
        units: u64,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        self.tables[location.table].1.change(location.slot, strategy, now, units, change);
    }

    pub(crate) fn remove(&mut self, target: &Target<'_>) {
        for (order, table) in &mut self.tables {
            if *order == target.order() {
                table.remove(target.id);
            }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.tables.iter_mut().for_each(|(_, table)| table.end_decision());
    }
}

/// Ignores poisoning: a panic under a lock leaves whole entries, because they are replaced, never written in part.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A power of two, several times the number of threads of a large machine.
const SHARDS: usize = 64;
/// Below this, shards would be so small that one of them would fill by chance long before the others.
const SMALLEST_TO_SHARD: usize = 64 * 1_024;
