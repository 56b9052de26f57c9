//! The decision on a single check of a small state or of slots: with one look-up, and without the conversions of other calls.

use portcullis_core::algorithm::{Algorithm, Figures, State};
use portcullis_core::store::Position;
use portcullis_core::{SlidingWindow, Strategy, Timestamp};

use super::small_entry::StoredState;
use super::state_table::SmallEntries;
use super::windows::{self, SlotCounts};
use super::{Shard, SmallEntryState, StateTable};
use crate::table::Value;

impl Shard {
    /// Decides a check of a key alone, and charges it if it fits. Returns whether it fits, and the state after it.
    /// Returns `None`, and decides nothing, if the state is not small, the key does not fit, or the length of the window is unknown.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a state that is returned through memory takes longer to read than to compute"
    )]
    pub(crate) fn decide<A: Algorithm<State: SmallEntryState>>(
        &mut self,
        id: u128,
        (strategy, algorithm): (&Strategy, &A),
        now: Timestamp,
        cost: u64,
    ) -> Option<(bool, Option<A::State>)> {
        self.add_strategy(strategy);
        let (keys, extra) = (self.bounds.keys, self.time_steps.extra());
        let decided = if let Some(entries) = A::State::short_entries_mut(&mut self.table) {
            entries.decide((id, keys), algorithm, (now, cost), extra)?
        } else {
            A::State::entries_mut(&mut self.table)?.decide((id, keys), algorithm, (now, cost), extra)?
        };
        let Decided { admitted, state, is_changed } = decided;
        if is_changed {
            self.denials.end(id);
        } else if !admitted
            && let Some(state) = state
            && self.time_steps.are_continuous()
        {
            self.denials.add(id, now, state.words());
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
        let key = (id, self.bounds.keys);
        if let Some(entries) = A::State::short_entries_mut(&mut self.table) {
            return entries.admits(key, algorithm, (now, cost));
        }
        A::State::entries_mut(&mut self.table)
            .is_some_and(|entries| entries.admits(key, algorithm, (now, cost)))
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
            StateTable::WholeLevels(_)
            | StateTable::Levels(_)
            | StateTable::Counts(_)
            | StateTable::CalendarCounts(_) => None,
        }
    }
}

/// What has been decided on a check of a small state.
struct Decided<S> {
    admitted: bool,
    /// The state after the decision.
    state: Option<S>,
    is_changed: bool,
}

impl<V: Value> SmallEntries<V> {
    /// Decides a check of a key in a table that has room for `keys`. `extra` is by how much longer states are kept.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is called once for each algorithm")]
    fn decide<A: Algorithm>(
        &mut self,
        (id, keys): (u128, usize),
        algorithm: &A,
        (now, cost): (Timestamp, u64),
        extra: u64,
    ) -> Option<Decided<A::State>>
    where
        V: StoredState<A::State>,
        A::State: Copy,
    {
        let Self { table, lengths } = self;
        let index = table.find(id);
        if index.is_none() && table.len() >= keys {
            return None;
        }
        let mut state = index.map(|index| table.at(index).load(lengths));
        let (admitted, is_changed) = algorithm.check(&mut state, now, cost);
        if is_changed {
            match (index, state) {
                (Some(_), None) => {
                    table.remove(id);
                }
                (None, None) => {}
                (index, Some(state)) => {
                    let expires_at = algorithm.expires_at(&state).saturating_add(extra);
                    let stored = V::store(state, lengths)?;
                    match index {
                        Some(index) => table.replace(index, stored, expires_at),
                        None => table.insert(id, stored, expires_at),
                    }
                }
            }
        }
        Some(Decided { admitted, state, is_changed })
    }

    #[inline]
    fn admits<A: Algorithm>(
        &self,
        (id, keys): (u128, usize),
        algorithm: &A,
        (now, cost): (Timestamp, u64),
    ) -> bool
    where
        V: StoredState<A::State>,
        A::State: Copy,
    {
        let index = self.table.find(id);
        let fits = index.is_some() || self.table.len() < keys;
        let mut state = index.map(|index| self.table.at(index).load(&self.lengths));
        let (is_admitted, _) = algorithm.check(&mut state, now, cost);
        fits && is_admitted && state.is_none_or(|state| V::store(state, &self.lengths).is_some())
    }
}
