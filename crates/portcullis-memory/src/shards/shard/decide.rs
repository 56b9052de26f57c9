//! The decision on a single check of a small state or of slots: with one look-up, and without the conversions of other calls.

use portcullis_core::algorithm::{Algorithm, Figures, State};
use portcullis_core::store::Position;
use portcullis_core::{SlidingWindow, Strategy, Timestamp};

use super::state_table::SmallEntries;
use super::windows::{self, SlotCounts};
use super::{Shard, SmallEntryState, StateTable};

impl Shard {
    /// Decides a check of a key alone, and charges it if it fits. Returns whether it fits, and the state after it.
    /// Returns `None`, and decides nothing, if the state is not small, the key does not fit, or the length of the window is unknown.
    #[inline]
    pub(crate) fn decide<A: Algorithm<State: SmallEntryState>>(
        &mut self,
        id: u128,
        (strategy, algorithm): (&Strategy, &A),
        now: Timestamp,
        cost: u64,
    ) -> Option<(bool, Option<A::State>)> {
        self.add_strategy(strategy);
        let SmallEntries { table, lengths } = A::State::entries_mut(&mut self.table)?;
        let index = table.find(id);
        if index.is_none() && table.len() >= self.bounds.keys {
            return None;
        }
        let mut state = index.map(|index| A::State::load(*table.at(index), lengths));
        let (admitted, is_changed) = algorithm.check(&mut state, now, cost);
        if !is_changed {
            if !admitted
                && let Some(state) = state
                && self.time_steps.are_continuous()
            {
                self.denials.add(id, now, state.words());
            }
            return Some((admitted, state));
        }
        self.denials.end(id);
        match (index, state) {
            (Some(_), None) => {
                table.remove(id);
            }
            (None, None) => {}
            (index, Some(state)) => {
                let expires_at = algorithm.expires_at(&state).saturating_add(self.time_steps.extra());
                let stored = state.store(lengths)?;
                match index {
                    Some(index) => table.replace(index, stored, expires_at),
                    None => table.insert(id, stored, expires_at),
                }
            }
        }
        Some((admitted, state))
    }

    /// Whether [`decide`](Self::decide) admits a check. Changes nothing.
    #[inline]
    pub(crate) fn admits<A: Algorithm<State: SmallEntryState>>(
        &mut self,
        id: u128,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> bool {
        let Some(SmallEntries { table, lengths }) = A::State::entries_mut(&mut self.table) else {
            return false;
        };
        let index = table.find(id);
        let fits = index.is_some() || table.len() < self.bounds.keys;
        let mut state = index.map(|index| A::State::load(*table.at(index), lengths));
        let (is_admitted, _) = algorithm.check(&mut state, now, cost);
        fits && is_admitted && state.is_none_or(|state| state.store(lengths).is_some())
    }

    /// Decides a check of a key alone whose state is the slots of a sliding window. Returns `None`, and decides nothing, if the key is unknown
    /// or [the slots](SlidingWindow::check_in_place) need more than a charge.
    pub(crate) fn decide_slots(
        &mut self,
        id: u128,
        window: &SlidingWindow,
        now: Timestamp,
        cost: u64,
    ) -> Option<(Figures, Position)> {
        match &mut self.table {
            StateTable::SlotCounts(SmallEntries { table, lengths }) => {
                let index = table.find(id)?;
                let mut slots = table.at(index).slots(lengths);
                let (figures, position, expires_at) = window.check_in_place(&mut slots, now, cost)?;
                if let Some(expires_at) = expires_at {
                    self.denials.end(id);
                    table.replace(index, SlotCounts::new(&slots, lengths)?, expires_at);
                } else if cost > 0
                    && let Some(words) = windows::words(&slots)
                {
                    self.denials.add(id, now, words);
                }
                Some((figures, position))
            }
            StateTable::Entries(table) => {
                let entry = table.get_mut(id)?;
                let Some(State::Slots(slots)) = &mut entry.state else { return None };
                let (figures, position, expires_at) = window.check_in_place(slots, now, cost)?;
                if let Some(expires_at) = expires_at {
                    self.denials.end(id);
                    entry.expires_at = expires_at;
                    table.keep_until(expires_at);
                }
                Some((figures, position))
            }
            StateTable::Levels(_) | StateTable::Counts(_) | StateTable::CalendarCounts(_) => None,
        }
    }
}
