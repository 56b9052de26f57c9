//! The decision on a single check of a small state or of slots: with one look-up, and without the conversions of other calls.

use portcullis_core::algorithm::{Algorithm, Evaluation, Figures, State};
use portcullis_core::store::Position;
use portcullis_core::{SlidingWindow, Strategy, Timestamp};

use super::{Own, Shard, SmallState};

impl Shard {
    /// Decides a check of a key alone, and charges it if it fits. Returns whether it fits, and the state after it.
    ///
    /// Returns `None`, and decides nothing, if the state is not small, or if the key is unknown and the shard is full.
    #[inline]
    pub(crate) fn decide<A: Algorithm<State: SmallState>>(
        &mut self,
        id: u128,
        (strategy, algorithm): (&Strategy, &A),
        now: Timestamp,
        cost: u64,
    ) -> Option<(bool, Option<A::State>)> {
        self.add_strategy(strategy);
        let table = A::State::table(&mut self.own)?;
        let index = table.find(id);
        if index.is_none() && table.len() >= self.bounds.keys {
            return None;
        }
        let mut state = index.map(|index| A::State::load(*table.at(index)));
        let Evaluation { admitted, repair } = algorithm.evaluate(state.as_ref(), now, cost);
        if admitted && cost > 0 {
            algorithm.charge(&mut state, now, cost);
        } else if repair {
            algorithm.advance(&mut state, now);
        } else {
            return Some((admitted, state));
        }
        match (index, state) {
            (Some(_), None) => {
                table.remove(id);
            }
            (None, None) => {}
            (index, Some(state)) => {
                let expires_at = algorithm.expires_at(&state).saturating_add(self.grains.extra());
                match index {
                    Some(index) => table.replace(index, state.store(), expires_at),
                    None => table.insert(id, state.store(), expires_at),
                }
            }
        }
        Some((admitted, state))
    }

    /// Whether [`decide`](Self::decide) admits a check. Changes nothing.
    #[inline]
    pub(crate) fn admits<A: Algorithm<State: SmallState>>(
        &self,
        id: u128,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> bool {
        let Some(table) = A::State::table_of(&self.own) else { return false };
        let index = table.find(id);
        let state = index.map(|index| A::State::load(*table.at(index)));
        let fits = index.is_some() || table.len() < self.bounds.keys;
        fits && algorithm.evaluate(state.as_ref(), now, cost).admitted
    }

    /// Decides a check of a key alone whose state is the slots of a sliding window.
    ///
    /// Returns `None`, and decides nothing, if the key is unknown or [the slots](SlidingWindow::check_in_place) need more than a
    /// charge.
    pub(crate) fn decide_slots(
        &mut self,
        id: u128,
        window: &SlidingWindow,
        now: Timestamp,
        cost: u64,
    ) -> Option<(Figures, Position)> {
        let Own::Entries(table) = &mut self.own else { return None };
        let entry = table.get_mut(id)?;
        let Some(State::Slots(slots)) = &mut entry.state else { return None };
        let (figures, position, expires_at) = window.check_in_place(slots, now, cost)?;
        if let Some(expires_at) = expires_at {
            entry.expires_at = expires_at;
            table.keep_until(expires_at);
        }
        Some((figures, position))
    }
}
