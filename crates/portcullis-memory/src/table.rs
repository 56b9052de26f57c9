//! One shard's entries.

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use portcullis_core::{State, Strategy, Timestamp};

/// A bounded map from a state's id to the state, walked by a cursor that drops what has expired.
#[derive(Debug)]
pub(crate) struct Table {
    entries: IndexMap<u128, Entry, BuildHasherDefault<IdHasher>>,
    capacity: usize,
    cursor: usize,
    /// New ids that the decision in progress was told there is room for.
    promised: usize,
}

#[derive(Debug)]
struct Entry {
    /// None only while it is being changed.
    state: Option<State>,
    expires_at: u64,
}

impl Table {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: IndexMap::default(), capacity, cursor: 0, promised: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, id: u128) -> Option<&State> {
        self.entries.get(&id)?.state.as_ref()
    }

    /// Begins a decision.
    pub(crate) fn begin(&mut self) {
        self.promised = 0;
    }

    /// Whether `id` is known or finds room. A full table looks for expired entries first, at a bounded number.
    pub(crate) fn holds(&mut self, id: u128, now: Timestamp) -> bool {
        if self.entries.contains_key(&id) {
            return true;
        }
        if !self.has_room() {
            self.sweep(now, SWEPT_WHEN_FULL);
        }
        let found = self.has_room();
        self.promised += usize::from(found);
        found
    }

    fn has_room(&self) -> bool {
        self.entries.len() + self.promised < self.capacity
    }

    /// Changes the state of `id` in place, where `change` returns whether it did; none is what an entry that is not there
    /// has.
    pub(crate) fn change(
        &mut self,
        id: u128,
        strategy: &Strategy,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else {
            let mut state = None;
            if change(&mut state)
                && let Some(fresh) = &state
            {
                let expires_at = strategy.expires_at(fresh);
                self.entries.insert(id, Entry { state, expires_at });
            }
            return;
        };
        if change(&mut entry.state) {
            match &entry.state {
                Some(state) => entry.expires_at = strategy.expires_at(state),
                None => self.remove(id),
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u128) {
        self.entries.swap_remove(&id);
    }

    /// Looks at the next `count` entries and drops those that have expired.
    pub(crate) fn sweep(&mut self, now: Timestamp, count: usize) {
        for _ in 0..count {
            if self.cursor >= self.entries.len() {
                self.cursor = 0;
            }
            let Some((_, entry)) = self.entries.get_index(self.cursor) else { return };
            if entry.expires_at <= now.as_micros() {
                self.entries.swap_remove_index(self.cursor);
            } else {
                self.cursor += 1;
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota};

    use super::*;

    fn charge(table: &mut Table, id: u128, at: u64) {
        let strategy = *Policy::gcra("a", Quota::per_second(1)).strategy();
        table.change(id, &strategy, |state| {
            strategy.charge(state, Timestamp::from_micros(at), 1);
            true
        });
    }

    #[test]
    fn a_full_table_makes_room_by_dropping_what_has_expired() {
        let mut table = Table::new(2);
        for id in [1, 2] {
            table.begin();
            assert!(table.holds(id, Timestamp::EPOCH));
            charge(&mut table, id, 0);
        }
        table.begin();
        assert!(!table.holds(3, Timestamp::from_micros(999_999)));
        assert!(table.holds(1, Timestamp::from_micros(999_999)));
        assert!(table.holds(3, Timestamp::from_micros(1_000_000)));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn the_sweep_comes_round_to_every_entry() {
        let mut table = Table::new(1_000);
        for id in 0..100 {
            charge(&mut table, id, if id % 2 == 0 { 0 } else { 5_000_000 });
        }
        for _ in 0..100 {
            table.sweep(Timestamp::from_micros(2_000_000), 2);
        }
        assert_eq!(table.len(), 50);
        assert!(table.get(1).is_some() && table.get(2).is_none());
    }

    #[test]
    fn none_takes_an_entry_away() {
        let mut table = Table::new(2);
        charge(&mut table, 1, 0);
        let strategy = *Policy::gcra("a", Quota::per_second(1)).strategy();
        table.change(1, &strategy, |state| state.take().is_none());
        assert_eq!(table.len(), 1, "nothing was said to have changed");
        table.change(1, &strategy, |_| true);
        assert_eq!(table.len(), 0);
    }
}
