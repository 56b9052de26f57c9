//! One shard of a policy's states.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use indexmap::IndexMap;
use portcullis_core::{State, Strategy, Timestamp};

use crate::budget::{Bytes, Division, ENTRY_BYTES, heap_of_fresh};

/// The states of keys, in a bounded map that is walked by a cursor which drops what has expired; and the overflow states,
/// which the keys share that find no room there.
#[derive(Debug)]
pub(crate) struct Table {
    own: IndexMap<u128, Entry, BuildHasherDefault<IdHasher>>,
    cursor: usize,
    overflow: Vec<Option<Entry>>,
    overflow_cursor: usize,
    room: Room,
    promised: Promised,
}

/// The bounds of a table.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The most keys in this table.
    pub(crate) keys: usize,
    /// The most bytes in all tables of the policy together.
    pub(crate) bytes: usize,
    /// The tables of the policy.
    pub(crate) tables: usize,
    /// The bytes that keys have taken in all tables of the policy. None if that depends on their number alone.
    pub(crate) taken: Option<Arc<Bytes>>,
}

#[derive(Debug)]
struct Entry {
    /// None only while it is being changed.
    state: Option<State>,
    expires_at: u64,
}

/// What the decision in progress has been promised for new keys.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    keys: usize,
    bytes: usize,
}

/// Where in a table the state of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Own(u128),
    /// Shared with other keys that found no room.
    Overflow(usize),
}

/// What a table holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) entries: usize,
    pub(crate) overflow_states: usize,
    pub(crate) overflow_bytes: usize,
}

impl Table {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            own: IndexMap::default(),
            cursor: 0,
            overflow: Vec::new(),
            overflow_cursor: 0,
            room,
            promised: Promised::default(),
        }
    }

    pub(crate) fn held(&self) -> Held {
        let mut held = Held { entries: self.own.len(), ..Held::default() };
        for entry in self.overflow.iter().flatten() {
            held.overflow_states += 1;
            held.overflow_bytes += ENTRY_BYTES + heap(entry.state.as_ref());
        }
        held
    }

    /// The slot of a key: its own if it is known or finds room. A full table looks for expired entries first, at a bounded
    /// number.
    pub(crate) fn slot(&mut self, id: u128, strategy: &Strategy, now: Timestamp) -> Slot {
        if self.has_room(id, strategy, now) {
            return Slot::Own(id);
        }
        self.sweep(now, SWEPT_WHEN_FULL);
        if self.has_room(id, strategy, now) {
            return Slot::Own(id);
        }
        let states = Division::of(self.room.bytes, strategy).overflow_states / self.room.tables;
        let bits = (id >> OVERFLOW_BITS) as u32;
        Slot::Overflow(bits as usize % states.max(1))
    }

    /// Whether a key is known or finds room, which is taken for the time of the decision.
    fn has_room(&mut self, id: u128, strategy: &Strategy, now: Timestamp) -> bool {
        let known = self.own.get(&id).map(|entry| entry.state.as_ref());
        let (keys, bytes) = match known {
            None if self.own.len() + self.promised.keys >= self.room.keys => return false,
            None => (1, ENTRY_BYTES + heap_of_fresh(strategy)),
            // It decides like none, and one under the present quota may be larger: it has to find room as a new one does. It
            // stays all the same, because the quota may become again what it was.
            Some(Some(state)) if !strategy.owns(state) => (0, strategy.growth(Some(state), now)),
            Some(_) => return true,
        };
        let is_granted = self.room.take(bytes, strategy);
        if is_granted {
            self.promised.keys += keys;
            self.promised.bytes += bytes;
        }
        is_granted
    }

    /// Ends a decision: what it was promised is counted by now, or not needed.
    pub(crate) fn end(&mut self) {
        let promised = std::mem::take(&mut self.promised);
        self.room.correct(promised.bytes, 0);
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&State> {
        match slot {
            Slot::Own(id) => self.own.get(&id)?.state.as_ref(),
            Slot::Overflow(number) => self.overflow.get(number)?.as_ref()?.state.as_ref(),
        }
    }

    /// Changes a state in place, where `change` returns whether it did. None is what an entry that is not there has.
    ///
    /// For `units` that are charged the state may grow. If it finds no room for that, it is compacted first.
    pub(crate) fn change(
        &mut self,
        slot: Slot,
        strategy: &Strategy,
        now: Timestamp,
        units: u32,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        match slot {
            Slot::Own(id) => self.change_own(id, strategy, now, units, change),
            Slot::Overflow(number) => self.change_overflow(number, strategy, now, units, change),
        }
    }

    fn change_own(
        &mut self,
        id: u128,
        strategy: &Strategy,
        now: Timestamp,
        units: u32,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        let Some(entry) = self.own.get_mut(&id) else {
            if let Some(fresh) = Entry::fresh(strategy, change) {
                self.room.correct(0, fresh.bytes());
                self.own.insert(id, fresh);
            }
            return;
        };
        let before = entry.bytes();
        let grown = entry.make_room(strategy, now, units, |growth| self.room.take(growth, strategy));
        entry.change(strategy, change);
        if entry.state.is_some() {
            self.room.correct(before + grown, entry.bytes());
        } else {
            self.own.swap_remove(&id);
            self.room.correct(before + grown, 0);
        }
    }

    fn change_overflow(
        &mut self,
        number: usize,
        strategy: &Strategy,
        now: Timestamp,
        units: u32,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        if self.overflow.len() <= number {
            self.overflow.resize_with(number + 1, || None);
        }
        let held = &mut self.overflow[number];
        match held {
            None => *held = Entry::fresh(strategy, change),
            Some(entry) => {
                let most = Division::of(self.room.bytes, strategy).overflow_heap;
                let before = heap(entry.state.as_ref());
                entry.make_room(strategy, now, units, |growth| before + growth <= most);
                entry.change(strategy, change);
                held.take_if(|entry| entry.state.is_none());
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u128) {
        if let Some(entry) = self.own.swap_remove(&id) {
            self.room.correct(entry.bytes(), 0);
        }
    }

    /// Looks at the next `count` entries and drops those that have expired.
    pub(crate) fn sweep(&mut self, now: Timestamp, count: usize) {
        for _ in 0..count.min(self.own.len()) {
            self.cursor = if self.cursor < self.own.len() { self.cursor } else { 0 };
            let Some((_, entry)) = self.own.get_index(self.cursor) else { return };
            if entry.has_expired(now) {
                self.room.correct(entry.bytes(), 0);
                self.own.swap_remove_index(self.cursor);
            } else {
                self.cursor += 1;
            }
        }
        for _ in 0..count.min(self.overflow.len()) {
            self.overflow_cursor = (self.overflow_cursor + 1) % self.overflow.len();
            self.overflow[self.overflow_cursor].take_if(|entry| entry.has_expired(now));
        }
    }
}

impl Room {
    /// Takes bytes for a state that grows.
    fn take(&self, growth: usize, strategy: &Strategy) -> bool {
        let most = Division::of(self.bytes, strategy).own;
        self.taken.as_ref().is_none_or(|taken| taken.take(growth, most))
    }

    fn correct(&self, taken: usize, found: usize) {
        if let Some(bytes) = &self.taken {
            bytes.correct(taken, found);
        }
    }
}

impl Entry {
    /// The entry of a state that `change` has made.
    fn fresh(strategy: &Strategy, change: impl FnOnce(&mut Option<State>) -> bool) -> Option<Self> {
        let mut state = None;
        let changed = change(&mut state);
        let expires_at = strategy.expires_at(state.as_ref().filter(|_| changed)?);
        Some(Self { state, expires_at })
    }

    fn change(&mut self, strategy: &Strategy, change: impl FnOnce(&mut Option<State>) -> bool) {
        if change(&mut self.state)
            && let Some(state) = &self.state
        {
            self.expires_at = strategy.expires_at(state);
        }
    }

    /// Sees to it that there is memory for a charge of `units`, if any: more of it if `take` grants that, else what the
    /// state has. Returns the bytes that were granted.
    fn make_room(
        &mut self,
        strategy: &Strategy,
        now: Timestamp,
        units: u32,
        take: impl FnOnce(usize) -> bool,
    ) -> usize {
        let growth = if units > 0 { strategy.growth(self.state.as_ref(), now) } else { 0 };
        if growth == 0 || take(growth) {
            return growth;
        }
        strategy.compact(&mut self.state, now);
        0
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + heap(self.state.as_ref())
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now.as_micros()
    }
}

fn heap(state: Option<&State>) -> usize {
    state.map_or(0, State::heap_bytes)
}

/// Takes an id for its own hash: it is a keyed fingerprint already, which no client can steer.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is as good as the whole")]
    fn write_u128(&mut self, id: u128) {
        self.0 = id as u64;
    }
}

/// Enough that a full table finds the room that expiry leaves, few enough for a check of a microsecond.
const SWEPT_WHEN_FULL: usize = 32;
/// Where in an id the bits are that choose an overflow state: neither those of the hash nor those of the shard.
const OVERFLOW_BITS: u32 = 96;

#[cfg(test)]
mod tests;
