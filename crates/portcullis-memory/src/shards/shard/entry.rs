//! Entries of states that may have memory on the heap.

use portcullis_core::algorithm::State;
use portcullis_core::{Strategy, Timestamp};

use crate::budget::ENTRY_BYTES;

/// A state that may have memory on the heap.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// `None` only during a change.
    pub(super) state: Option<State>,
    pub(super) expires_at: u64,
}

impl Entry {
    /// The entry of the state that `f` creates, if it does.
    pub(super) fn create(strategy: &Strategy, f: impl FnOnce(&mut Option<State>) -> bool) -> Option<Self> {
        let mut state = None;
        let changed = f(&mut state);
        let expires_at = strategy.expires_at(state.as_ref().filter(|_| changed)?);
        Some(Self { state, expires_at })
    }

    pub(super) fn apply(&mut self, strategy: &Strategy, f: impl FnOnce(&mut Option<State>) -> bool) {
        if f(&mut self.state)
            && let Some(state) = &self.state
        {
            self.expires_at = strategy.expires_at(state);
        }
    }

    /// Makes space for a charge of `units`: by growth if `take` grants it, else by compaction. Returns the bytes that were granted.
    pub(super) fn grow_or_compact(
        &mut self,
        strategy: &Strategy,
        now: Timestamp,
        units: u64,
        take: impl FnOnce(usize) -> bool,
    ) -> usize {
        let growth = if units > 0 { strategy.growth(self.state.as_ref(), now) } else { 0 };
        if growth == 0 || take(growth) {
            return growth;
        }
        strategy.compact(&mut self.state, now);
        0
    }

    /// The bytes that the entry counts as that of one key: see [`heap_cost`](crate::budget::heap_cost).
    pub(super) fn cost(&self) -> usize {
        let heap = heap(self.state.as_ref());
        let lost = if matches!(self.state, Some(State::Log(_))) { heap / 4 } else { 0 };
        ENTRY_BYTES + heap + lost
    }

    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now.as_micros()
    }
}

pub(super) fn heap(state: Option<&State>) -> usize {
    state.map_or(0, State::heap_bytes)
}
