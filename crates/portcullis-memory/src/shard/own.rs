//! The states of the keys of a shard, each kind in entries of its own size.

use portcullis_core::algorithm::{CalendarCount, State, Tat, Window};
use portcullis_core::{Strategy, Timestamp};

use super::{Bounds, Entry};
use crate::table::{Align32, Table, Value};

/// The states of keys. All states of a policy are of one kind, because the strategy is part of the policy's digest.
#[derive(Debug)]
pub(crate) enum Own {
    Levels(Table<Level>),
    Counts(Table<WindowCount>),
    CalendarCounts(Table<NumberedCount>),
    /// States that are read and changed where they are, because they have memory on the heap.
    Entries(Table<Entry>),
}

/// A state of a fixed size, which a call copies, and of which the table stores nothing else.
pub(super) trait Small: Copy + Value {
    /// Returns `None` for a state of another kind.
    fn of(state: &State) -> Option<Self>;

    fn state(self) -> State;
}

/// The state of an algorithm whose policies have [small](Small) states.
pub(crate) trait SmallState: Copy {
    /// What a table stores of it.
    type Stored: Copy + Value;

    /// The states of this kind; `None` if the shard has states of another kind.
    fn table(own: &mut Own) -> Option<&mut Table<Self::Stored>>;

    /// The same, to read them.
    fn table_of(own: &Own) -> Option<&Table<Self::Stored>>;

    fn load(stored: Self::Stored) -> Self;

    fn store(self) -> Self::Stored;
}

/// The level of a rate-based algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    micros: u64,
    remainder: u64,
}

/// The count of a fixed window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowCount {
    end: u64,
    length: u64,
    count: u64,
}

/// The count of a calendar window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberedCount {
    window: u64,
    end: u64,
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
            Strategy::CalendarWindow(_) => Self::CalendarCounts(Table::new(keys)),
            Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) | Strategy::InFlight(_) => {
                Self::Entries(Table::new(keys))
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Levels(table) => table.len(),
            Self::Counts(table) => table.len(),
            Self::CalendarCounts(table) => table.len(),
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
            Self::Levels(table) => table.sweep(now, count, |level| expires_at(&level.state()), drop),
            Self::Counts(table) => table.sweep(now, count, |window| expires_at(&window.state()), drop),
            Self::CalendarCounts(table) => {
                table.sweep(now, count, |window| expires_at(&window.state()), drop);
            }
            Self::Entries(table) => {
                table.sweep(now, count, |entry| entry.expires_at, |entry| bounds.adjust(entry.cost(), 0));
            }
        }
    }

    /// See [`Table::forget_expiry`].
    #[cold]
    pub(super) fn forget_expiry(&mut self) {
        match self {
            Self::Levels(table) => table.forget_expiry(),
            Self::Counts(table) => table.forget_expiry(),
            Self::CalendarCounts(table) => table.forget_expiry(),
            // An entry holds the instant at which it expires.
            Self::Entries(_) => {}
        }
    }

    /// Whether an entry still counts at an instant.
    pub(super) fn has_living(&self, expires_at: impl Fn(&State) -> u64, now: Timestamp) -> bool {
        let now = now.as_micros();
        match self {
            Self::Levels(table) => {
                table.sample(0, usize::MAX).any(|(_, level)| expires_at(&level.state()) > now)
            }
            Self::Counts(table) => {
                table.sample(0, usize::MAX).any(|(_, window)| expires_at(&window.state()) > now)
            }
            Self::CalendarCounts(table) => {
                table.sample(0, usize::MAX).any(|(_, window)| expires_at(&window.state()) > now)
            }
            Self::Entries(table) => table.sample(0, usize::MAX).any(|(_, entry)| entry.expires_at > now),
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
            Self::CalendarCounts(table) => {
                table.remove(id);
            }
            Self::Entries(table) => {
                if let Some(entry) = table.remove(id) {
                    bounds.adjust(entry.cost(), 0);
                }
            }
        }
    }
}

/// Replaces the state of a key by one that expires at an instant, in microseconds; `None` removes it.
pub(super) fn replace<S: Small>(table: &mut Table<S>, id: u128, state: Option<&State>, expires_at: u64) {
    let Some(state) = state.and_then(S::of) else {
        table.remove(id);
        return;
    };
    match table.find(id) {
        Some(index) => table.replace(index, state, expires_at),
        None => table.insert(id, state, expires_at),
    }
}

impl Value for Level {
    type Align = Align32;
}

impl Value for WindowCount {
    type Align = ();
}

impl Value for NumberedCount {
    type Align = ();
}

impl Value for Entry {
    type Align = ();
}

impl Small for Level {
    #[inline]
    fn of(state: &State) -> Option<Self> {
        if let State::Tat(tat) = state { Some(tat.store()) } else { None }
    }

    #[inline]
    fn state(self) -> State {
        State::Tat(Tat::load(self))
    }
}

impl Small for WindowCount {
    #[inline]
    fn of(state: &State) -> Option<Self> {
        if let State::Window(window) = state { Some(window.store()) } else { None }
    }

    #[inline]
    fn state(self) -> State {
        State::Window(Window::load(self))
    }
}

impl Small for NumberedCount {
    #[inline]
    fn of(state: &State) -> Option<Self> {
        if let State::CalendarCount(count) = state { Some(count.store()) } else { None }
    }

    #[inline]
    fn state(self) -> State {
        State::CalendarCount(CalendarCount::load(self))
    }
}

impl SmallState for Tat {
    type Stored = Level;

    #[inline]
    fn table(own: &mut Own) -> Option<&mut Table<Level>> {
        if let Own::Levels(table) = own { Some(table) } else { None }
    }

    #[inline]
    fn table_of(own: &Own) -> Option<&Table<Level>> {
        if let Own::Levels(table) = own { Some(table) } else { None }
    }

    #[inline]
    fn load(Level { micros, remainder }: Level) -> Self {
        Self { micros, remainder }
    }

    #[inline]
    fn store(self) -> Level {
        let Self { micros, remainder } = self;
        Level { micros, remainder }
    }
}

impl SmallState for Window {
    type Stored = WindowCount;

    #[inline]
    fn table(own: &mut Own) -> Option<&mut Table<WindowCount>> {
        if let Own::Counts(table) = own { Some(table) } else { None }
    }

    #[inline]
    fn table_of(own: &Own) -> Option<&Table<WindowCount>> {
        if let Own::Counts(table) = own { Some(table) } else { None }
    }

    #[inline]
    fn load(WindowCount { end, length, count }: WindowCount) -> Self {
        Self { end, length, count }
    }

    #[inline]
    fn store(self) -> WindowCount {
        let Self { end, length, count } = self;
        WindowCount { end, length, count }
    }
}

impl SmallState for CalendarCount {
    type Stored = NumberedCount;

    #[inline]
    fn table(own: &mut Own) -> Option<&mut Table<NumberedCount>> {
        if let Own::CalendarCounts(table) = own { Some(table) } else { None }
    }

    #[inline]
    fn table_of(own: &Own) -> Option<&Table<NumberedCount>> {
        if let Own::CalendarCounts(table) = own { Some(table) } else { None }
    }

    #[inline]
    fn load(NumberedCount { window, end, count }: NumberedCount) -> Self {
        Self { window, end, count }
    }

    #[inline]
    fn store(self) -> NumberedCount {
        let Self { window, end, count } = self;
        NumberedCount { window, end, count }
    }
}
