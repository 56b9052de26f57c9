//! The states of the keys of a shard, each kind in entries of its own size.

use portcullis_core::algorithm::{State, Tat, Window};
use portcullis_core::{Strategy, Timestamp};

use super::{Bounds, Entry};
use crate::table::Table;

/// The states of keys. All states of a policy are of one kind, because the strategy is part of the policy's digest.
#[derive(Debug)]
pub(super) enum Own {
    Levels(Table<Level>),
    Counts(Table<WindowCount>),
    /// States that are read and changed where they are, because they have memory on the heap.
    Entries(Table<Entry>),
}

/// A state of a fixed size, which a call copies, and of which the table stores nothing else.
pub(super) trait Small: Copy + Default {
    /// Returns `None` for a state of another kind.
    fn of(state: &State) -> Option<Self>;

    fn state(self) -> State;
}

/// The level of a rate-based algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    micros: u64,
    remainder: u64,
}

/// The count of a fixed window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowCount {
    end: u64,
    length: u64,
    count: u64,
}

impl Own {
    /// Space for the states of at most `keys` keys under a strategy.
    pub(super) fn new(strategy: &Strategy, keys: usize) -> Self {
        match strategy {
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                Self::Levels(Table::new(keys))
            }
            Strategy::FixedWindow(_) => Self::Counts(Table::new(keys)),
            Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) => Self::Entries(Table::new(keys)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Levels(table) => table.len(),
            Self::Counts(table) => table.len(),
            Self::Entries(table) => table.len(),
        }
    }

    /// Inspects the next `count` entries and drops those that have expired: at the instant that `expires_at` returns, or that
    /// an entry holds.
    pub(super) fn sweep(
        &mut self,
        expires_at: impl Fn(&State) -> u64,
        now: Timestamp,
        count: usize,
        bounds: &Bounds,
    ) {
        let now = now.as_micros();
        match self {
            Self::Levels(table) => table.sweep(count, |level| expires_at(&level.state()) <= now),
            Self::Counts(table) => table.sweep(count, |window| expires_at(&window.state()) <= now),
            Self::Entries(table) => table.sweep(count, |entry| {
                let has_expired = entry.expires_at <= now;
                if has_expired {
                    bounds.adjust(entry.bytes(), 0);
                }
                has_expired
            }),
        }
    }

    pub(super) fn remove(&mut self, id: u128, bounds: &Bounds) {
        match self {
            Self::Levels(table) => {
                table.remove(id);
            }
            Self::Counts(table) => {
                table.remove(id);
            }
            Self::Entries(table) => {
                if let Some(entry) = table.remove(id) {
                    bounds.adjust(entry.bytes(), 0);
                }
            }
        }
    }
}

/// Replaces the state of a key; `None` removes it.
pub(super) fn replace<S: Small>(table: &mut Table<S>, id: u128, state: Option<&State>) {
    let Some(state) = state.and_then(S::of) else {
        table.remove(id);
        return;
    };
    match table.get_mut(id) {
        Some(held) => *held = state,
        None => table.insert(id, state),
    }
}

impl Small for Level {
    fn of(state: &State) -> Option<Self> {
        let State::Tat(Tat { micros, remainder }) = *state else { return None };
        Some(Self { micros, remainder })
    }

    fn state(self) -> State {
        let Self { micros, remainder } = self;
        State::Tat(Tat { micros, remainder })
    }
}

impl Small for WindowCount {
    fn of(state: &State) -> Option<Self> {
        let State::Window(Window { end, length, count }) = *state else { return None };
        Some(Self { end, length, count })
    }

    fn state(self) -> State {
        let Self { end, length, count } = self;
        State::Window(Window { end, length, count })
    }
}
