//! A shard: a part of the states of a policy.

mod decide;
mod entry;
mod overrides;
mod policy;
mod small_entry;
mod state_table;
mod time_steps;
mod windows;

use std::sync::Arc;

use portcullis_core::algorithm::State;
use portcullis_core::{Strategy, Timestamp};

use crate::budget::{BytesUsed, Division, ENTRY_BYTES, heap_cost, initial_heap_bytes};
use crate::figures::stats::MemoryPolicyStats;
use crate::overrides::SharedOverrides;
use crate::shards::unlocked::{Denials, Unlocked};
use entry::{Entry, heap};
use state_table::StateTable;
use time_steps::TimeSteps;

pub(crate) use state_table::SmallEntryState;
pub(crate) use time_steps::time_step;
pub(crate) use windows::slots_of;

/// The states of keys, in a bounded table from which a moving cursor drops expired entries; and the overflow states.
// In this order: what every check writes lies in the cache line of the lock. What it only reads fits into the next 64 bytes, but for the
// length of windows.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    /// The instant of the latest call.
    latest: Timestamp,
    /// The number of entries that calls should have inspected since the last sweep.
    unswept: usize,
    reserved: Reserved,
    time_steps: TimeSteps,
    /// The digest of the policy that has the shard, in two halves: a `u128` has an alignment of 16 bytes. Zeros if none has it.
    policy: [u64; 2],
    table: StateTable,
    denials: Denials,
    bounds: Bounds,
    overflow: Vec<Option<Entry>>,
    overflow_cursor: usize,
    /// The overrides of the policy, which other policies of its name share.
    overrides: Option<Arc<SharedOverrides>>,
}

/// The bounds of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The maximum number of keys in this shard.
    pub(crate) keys: usize,
    /// The maximum bytes in all shards of the policy together.
    pub(crate) bytes: usize,
    /// The number of shards of the policy.
    pub(crate) shards: usize,
    /// The bytes in use in all shards of the policy. `None` if they depend on the number of keys alone.
    pub(crate) used: Option<Arc<BytesUsed>>,
}

/// What the current decision has reserved for new keys.
#[derive(Clone, Copy, Debug, Default)]
struct Reserved {
    keys: usize,
    bytes: usize,
}

/// The entry of a key in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryId {
    /// The entry of one key.
    Own(u128),
    /// An entry that is shared by keys that did not fit.
    Overflow(usize),
}

/// How a call reads and changes the state of an entry.
#[derive(Debug)]
pub(crate) enum Access {
    /// A copy of the state, which is written back with [`Shard::replace`] if it has changed.
    Copied(Option<State>),
    /// With [`Shard::get`] and [`Shard::apply`].
    InPlace,
}

impl EntryId {
    /// Whether the entry is shared by keys that did not fit.
    pub(crate) fn is_overflow(self) -> bool {
        matches!(self, Self::Overflow(_))
    }
}

impl Shard {
    pub(crate) fn new(strategy: &Strategy, bounds: Bounds, unlocked: &Unlocked) -> Self {
        Self {
            table: StateTable::new(strategy, bounds.keys, Arc::clone(&unlocked.location)),
            denials: Denials::new(Arc::clone(&unlocked.denied)),
            time_steps: TimeSteps::of(strategy),
            policy: [0; 2],
            latest: Timestamp::EPOCH,
            unswept: 0,
            overflow: Vec::new(),
            overflow_cursor: 0,
            overrides: None,
            bounds,
            reserved: Reserved::default(),
        }
    }

    /// Adds the states of the shard, and the bytes of those that keys share.
    pub(crate) fn add_to(&self, stats: &mut MemoryPolicyStats) {
        stats.entries += self.table.len();
        for entry in self.overflow.iter().flatten() {
            stats.overflow_states += 1;
            stats.bytes += ENTRY_BYTES + heap(entry.state.as_ref());
        }
    }

    /// The instant of the latest call that has locked the shard.
    #[inline]
    pub(crate) fn latest(&self) -> Timestamp {
        self.latest
    }

    /// Records the instant of a call.
    #[inline]
    pub(crate) fn set_latest(&mut self, now: Timestamp) {
        self.latest = now;
    }

    /// Records that a strategy uses the shard.
    #[inline]
    fn add_strategy(&mut self, strategy: &Strategy) {
        if self.time_steps.add(strategy) {
            self.table.forget_expiry();
        }
    }

    /// Sweeps a few entries, then locates the state of a key, and reserves what a new state takes.
    pub(crate) fn sweep_and_locate(
        &mut self,
        id: u128,
        strategy: &Strategy,
        now: Timestamp,
        swept: usize,
    ) -> (EntryId, Access) {
        self.sweep_in_batches(strategy, now, swept);
        self.locate(id, strategy, now)
    }

    /// The entry of a key, as [`find_or_reserve`](Shard::find_or_reserve) returns it, and how to use its state.
    pub(crate) fn locate(&mut self, id: u128, strategy: &Strategy, now: Timestamp) -> (EntryId, Access) {
        self.add_strategy(strategy);
        self.table.admit(strategy, self.bounds.keys);
        let access = self.access(EntryId::Own(id));
        if matches!(access, Access::Copied(Some(_))) {
            return (EntryId::Own(id), access);
        }
        match self.find_or_reserve(id, strategy, now) {
            entry @ EntryId::Own(_) => (entry, access),
            entry @ EntryId::Overflow(_) => (entry, Access::InPlace),
        }
    }

    fn access(&self, entry: EntryId) -> Access {
        match (entry, &self.table) {
            (EntryId::Own(_), StateTable::Entries(_)) | (EntryId::Overflow(_), _) => Access::InPlace,
            (EntryId::Own(id), table) => Access::Copied(table.copied(id)),
        }
    }

    /// The entry of a key: its own if it is known or fits, for which a full shard first drops some expired entries.
    fn find_or_reserve(&mut self, id: u128, strategy: &Strategy, now: Timestamp) -> EntryId {
        if self.try_reserve(id, strategy, now) {
            return EntryId::Own(id);
        }
        self.sweep(strategy, now, SWEPT_WHEN_FULL);
        if self.try_reserve(id, strategy, now) {
            return EntryId::Own(id);
        }
        let states = Division::of(self.bounds.bytes, strategy).overflow_states / self.bounds.shards;
        let bits = (id >> OVERFLOW_BITS) as u32;
        EntryId::Overflow(bits as usize % states.max(1))
    }

    /// Whether a key is known or fits. What a new one takes is reserved until the end of the decision.
    fn try_reserve(&mut self, id: u128, strategy: &Strategy, now: Timestamp) -> bool {
        let known = match &self.table {
            StateTable::Entries(table) => table.get(id).map(|entry| entry.state.as_ref()),
            table => table.has(id).then_some(None),
        };
        let (keys, bytes) = match known {
            None if self.table.len() + self.reserved.keys >= self.bounds.keys => return false,
            None => (1, ENTRY_BYTES + heap_cost(strategy, initial_heap_bytes(strategy))),
            // A state written under another quota counts as absent, and is kept. Its replacement may be larger, so space is reserved.
            Some(Some(state)) if !strategy.owns(state) => (0, strategy.growth(Some(state), now)),
            Some(_) => return true,
        };
        let is_granted = self.bounds.take(bytes, strategy);
        if is_granted {
            self.reserved.keys += keys;
            self.reserved.bytes += bytes;
        }
        is_granted
    }

    /// Ends a decision: what it has reserved is counted by now, or not needed.
    #[inline]
    pub(crate) fn end_decision(&mut self) {
        // Most decisions reserve nothing, and write nothing here.
        if self.reserved.keys > 0 || self.reserved.bytes > 0 {
            let reserved = std::mem::take(&mut self.reserved);
            self.bounds.adjust(reserved.bytes, 0);
        }
    }

    /// The state of an entry that is used [in place](Access::InPlace).
    pub(crate) fn get(&self, id: EntryId) -> Option<&State> {
        match (id, &self.table) {
            (EntryId::Own(id), StateTable::Entries(table)) => table.get(id)?.state.as_ref(),
            (EntryId::Own(_), _) => None,
            (EntryId::Overflow(number), _) => self.overflow.get(number)?.as_ref()?.state.as_ref(),
        }
    }

    /// Writes a [copy](Access::Copied) back; `None` removes the entry.
    pub(crate) fn replace(&mut self, id: EntryId, strategy: &Strategy, state: Option<&State>) {
        let expires_at = state.map_or(0, |state| self.time_steps.expires_at(strategy, state));
        if let EntryId::Own(id) = id {
            self.denials.end(id);
            self.table.replace(id, state, expires_at);
        }
    }

    /// Applies `f` to a state that is used [in place](Access::InPlace), which is `None` for an absent entry. `f` returns whether
    /// it changed the state.
    /// The state may grow for the `units` that are charged, or is compacted.
    pub(crate) fn apply(
        &mut self,
        id: EntryId,
        strategy: &Strategy,
        now: Timestamp,
        units: u64,
        f: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        match id {
            EntryId::Own(id) => self.apply_to_own(id, strategy, now, units, f),
            EntryId::Overflow(number) => self.apply_to_overflow(number, strategy, now, units, f),
        }
    }

    fn apply_to_own(
        &mut self,
        id: u128,
        strategy: &Strategy,
        now: Timestamp,
        units: u64,
        f: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        self.denials.end(id);
        let StateTable::Entries(table) = &mut self.table else { return };
        let Some(entry) = table.get_mut(id) else {
            if let Some(entry) = Entry::create(strategy, f) {
                self.bounds.adjust(0, entry.cost());
                let expires_at = entry.expires_at;
                table.insert(id, entry, expires_at);
            }
            return;
        };
        let before = entry.cost();
        let take = |growth| self.bounds.take(heap_cost(strategy, growth), strategy);
        let grown = heap_cost(strategy, entry.grow_or_compact(strategy, now, units, take));
        entry.apply(strategy, f);
        if entry.state.is_some() {
            self.bounds.adjust(before + grown, entry.cost());
            let expires_at = entry.expires_at;
            table.keep_until(expires_at);
        } else {
            table.remove(id);
            self.bounds.adjust(before + grown, 0);
        }
    }

    fn apply_to_overflow(
        &mut self,
        number: usize,
        strategy: &Strategy,
        now: Timestamp,
        units: u64,
        f: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        if self.overflow.len() <= number {
            self.overflow.resize_with(number + 1, || None);
        }
        let held = &mut self.overflow[number];
        match held {
            None => *held = Entry::create(strategy, f),
            Some(entry) => {
                let max = Division::of(self.bounds.bytes, strategy).overflow_heap;
                let before = heap(entry.state.as_ref());
                entry.grow_or_compact(strategy, now, units, |growth| before + growth <= max);
                entry.apply(strategy, f);
                held.take_if(|entry| entry.state.is_none());
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u128) {
        self.denials.end(id);
        self.table.remove(id, &self.bounds);
    }

    /// Sweeps `count` entries on average: several times the number at some calls, because they lie beside each other.
    #[inline]
    pub(crate) fn sweep_in_batches(&mut self, strategy: &Strategy, now: Timestamp, count: usize) {
        self.unswept = self.unswept.saturating_add(count);
        if self.unswept >= BATCH {
            let count = std::mem::take(&mut self.unswept);
            self.sweep(strategy, now, count);
        }
    }

    /// Inspects the next `count` entries, unless none can have expired, and drops those that have.
    pub(crate) fn sweep(&mut self, strategy: &Strategy, now: Timestamp, count: usize) {
        self.add_strategy(strategy);
        self.table.sweep(|state| self.time_steps.expires_at(strategy, state), now, count, &self.bounds);
        for _ in 0..count.min(self.overflow.len()) {
            let next = self.overflow_cursor + 1;
            self.overflow_cursor = if next < self.overflow.len() { next } else { 0 };
            self.overflow[self.overflow_cursor].take_if(|entry| entry.has_expired(now));
        }
    }
}

impl Bounds {
    /// Takes bytes for a state that grows. Returns whether they fit.
    #[inline]
    fn take(&self, growth: usize, strategy: &Strategy) -> bool {
        self.used.as_ref().is_none_or(|used| used.take(growth, Division::of(self.bytes, strategy).own))
    }

    #[inline]
    fn adjust(&self, old: usize, new: usize) {
        if let Some(used) = &self.used {
            used.adjust(old, new);
        }
    }
}

/// High enough for a full shard to find expired entries, low enough for a check of a microsecond.
const SWEPT_WHEN_FULL: usize = 32;
/// The entries that are swept together: a few cache lines that lie beside each other.
const BATCH: usize = 16;
/// The position of the id's bits that choose an overflow state: neither those of the hash nor those of the shard.
const OVERFLOW_BITS: u32 = 96;

#[cfg(test)]
mod tests;
