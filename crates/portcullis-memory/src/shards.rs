//! Locks, and the places that states live in.

use std::sync::{Arc, PoisonError};

use portcullis_core::{Key, Policy, PolicyName, State, Strategy, Timestamp};
use smallvec::SmallVec;

use crate::MemoryPolicyStats;
use crate::budget::{Amount, Bytes, Division, ENTRY_BYTES, heap_of_fresh};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::table::{Held, Room, Slot, Table};
use crate::throttle::LogThrottle;

/// The states of one policy, in tables that are each behind a lock of their own.
#[derive(Debug)]
pub(crate) struct Shards {
    policy: PolicyName,
    digest: u128,
    /// How many policies came before: locks are taken in this order.
    number: u32,
    granted: Amount,
    tables: Box<[Mutex<Table>]>,
    taken: Option<Arc<Bytes>>,
    overflowed: AtomicU64,
    throttle: LogThrottle,
}

impl Shards {
    pub(crate) fn new(policy: &Policy, number: u32, granted: Amount) -> Self {
        let division = Division::of(granted.bytes, policy.strategy());
        let is_small = granted.keys < SMALLEST_TO_SHARD || division.overflow_states < SHARDS;
        let count = if is_small { 1 } else { SHARDS };
        let taken = (heap_of_fresh(policy.strategy()) > 0).then(Arc::default);
        let keys = match taken {
            Some(_) => granted.keys,
            None => granted.keys.min(division.own / ENTRY_BYTES),
        };
        let room = Room {
            keys: keys.div_ceil(count).max(1),
            bytes: granted.bytes,
            tables: count,
            taken: taken.clone(),
        };
        Self {
            policy: policy.name().clone(),
            digest: policy.digest(),
            number,
            granted,
            tables: (0..count).map(|_| Mutex::new(Table::new(room.clone()))).collect(),
            taken,
            overflowed: AtomicU64::new(0),
            throttle: LogThrottle::default(),
        }
    }

    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// Where the state of a key belongs. The upper half of the id picks the table, the lower half is its hash there.
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
    pub(crate) fn target(&self, key: Key) -> Target<'_> {
        let id = key.fingerprint() ^ self.digest;
        Target { shards: self, table: (id >> 64) as usize & (self.tables.len() - 1), id }
    }

    /// Counts a check that went to an overflow state, and says so in the log now and then. Not to be called under a lock.
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
        let mut all = Held::default();
        for table in &self.tables {
            let held = lock(table).held();
            all.entries += held.entries;
            all.overflow_states += held.overflow_states;
            all.overflow_bytes += held.overflow_bytes;
        }
        let own = self.taken.as_ref().map_or(all.entries * ENTRY_BYTES, |taken| taken.get());
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
    fn order(&self) -> Order {
        (self.shards.number, self.table)
    }
}

/// The tables of one decision.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    tables: SmallVec<[(Order, MutexGuard<'a, Table>); 2]>,
}

/// The policy and the table: in which order tables are locked.
type Order = (u32, usize);

/// Where the state of a key under a policy is: in which of the tables of the decision, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    table: usize,
    slot: Slot,
}

impl Place {
    /// Whether the state is shared by keys that found no room.
    pub(crate) fn is_overflow(self) -> bool {
        matches!(self.slot, Slot::Overflow(_))
    }
}

impl<'a> Locked<'a> {
    /// Locks the tables of all `targets`, in one order so that no two calls wait for each other.
    pub(crate) fn new(targets: &[Target<'a>]) -> Self {
        let mut targets: SmallVec<[Target<'a>; 2]> = targets.into();
        targets.sort_unstable_by_key(Target::order);
        targets.dedup_by_key(|target| target.order());
        let locked = |target: Target<'a>| (target.order(), lock(&target.shards.tables[target.table]));
        Self { tables: targets.into_iter().map(locked).collect() }
    }

    /// Sweeps a little, then finds the place of a key whose table was locked.
    pub(crate) fn place(
        &mut self,
        target: &Target<'_>,
        strategy: &Strategy,
        now: Timestamp,
        swept: usize,
    ) -> Place {
        let order = target.order();
        let table = self.tables.iter().position(|(locked, _)| *locked == order);
        let table = table.expect("every table of a decision is locked before it is used");
        let (_, found) = &mut self.tables[table];
        found.sweep(now, swept);
        Place { table, slot: found.slot(target.id, strategy, now) }
    }

    pub(crate) fn get(&self, place: Place) -> Option<&State> {
        self.tables[place.table].1.get(place.slot)
    }

    /// Changes a state in place, where `change` returns whether it did; `units` are those that it charges.
    pub(crate) fn change(
        &mut self,
        place: Place,
        strategy: &Strategy,
        now: Timestamp,
        units: u32,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        self.tables[place.table].1.change(place.slot, strategy, now, units, change);
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
        self.tables.iter_mut().for_each(|(_, table)| table.end());
    }
}

/// A panic while a lock is held leaves whole entries behind: they are replaced, never half written.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A power of two, several times the threads that a large machine has.
const SHARDS: usize = 64;
/// Below this, shards would be so small that chance fills one long before the others.
const SMALLEST_TO_SHARD: usize = 64 * 1_024;
