//! The states of the keys of a shard, each kind in entries of its own size.

use std::sync::Arc;

use portcullis_core::algorithm::{CalendarCount, State, Tat, Window};
use portcullis_core::{Strategy, Timestamp};

use super::windows::{Lengths, SlotCounts, WindowCount};
use super::{Bounds, Entry};
use crate::table::{Align32, Align64, Location, Table, Value};

/// The states of keys. All states of a policy are of one kind, because the strategy is part of the policy's digest.
#[derive(Debug)]
pub(crate) enum StateTable {
    Levels(SmallEntries<Level>),
    Counts(SmallEntries<WindowCount>),
    CalendarCounts(SmallEntries<NumberedCount>),
    /// The counts of sliding windows with one slot.
    SlotCounts(SmallEntries<SlotCounts>),
    /// States that are read and changed where they are, because they have memory on the heap.
    Entries(Table<Entry>),
}

/// States of a fixed size, and what those of windows have in common.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SmallEntries<V: Value> {
    pub(super) table: Table<V>,
    pub(super) lengths: Lengths,
}

/// A state of a fixed size, which a call copies, and of which the table stores nothing else.
pub(crate) trait SmallEntry: Copy + Value {
    /// Returns `None` for a state of another kind.
    fn of(state: &State, lengths: &Lengths) -> Option<Self>;

    fn state(self, lengths: &Lengths) -> State;
}

/// The state of an algorithm whose policies store it as a [small entry](SmallEntry).
pub(crate) trait SmallEntryState: Copy {
    /// What a table stores of it.
    type Stored: Copy + Value;

    /// The states of this kind; `None` if the shard has states of another kind.
    fn entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<Self::Stored>>;

    /// Like [`entries_mut`](Self::entries_mut), but to read them.
    fn entries(table: &StateTable) -> Option<&SmallEntries<Self::Stored>>;

    fn load(stored: Self::Stored, lengths: &Lengths) -> Self;

    /// Returns `None` if there is no room for the length of a window.
    fn store(self, lengths: &Lengths) -> Option<Self::Stored>;
}

/// The level of a rate-based algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    micros: u64,
    remainder: u64,
}

/// The count of a calendar window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberedCount {
    window: u64,
    end: u64,
    count: u64,
}

impl StateTable {
    /// Space for the states of at most `keys` keys under a strategy.
    pub(super) fn new(strategy: &Strategy, keys: usize, location: Arc<Location>) -> Self {
        match strategy {
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                Self::Levels(SmallEntries::new(strategy, keys, location))
            }
            Strategy::FixedWindow(_) => Self::Counts(SmallEntries::new(strategy, keys, location)),
            Strategy::CalendarWindow(_) => Self::CalendarCounts(SmallEntries::new(strategy, keys, location)),
            Strategy::SlidingWindow(window) if window.slots() == 1 => {
                Self::SlotCounts(SmallEntries::new(strategy, keys, location))
            }
            Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) | Strategy::InFlight(_) => {
                Self::Entries(Table::located(location, keys))
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Levels(states) => states.table.len(),
            Self::Counts(states) => states.table.len(),
            Self::CalendarCounts(states) => states.table.len(),
            Self::SlotCounts(states) => states.table.len(),
            Self::Entries(table) => table.len(),
        }
    }

    /// Makes room for the states of a strategy. If the lengths of windows are more than fit into the list, the states of all `keys` keys
    /// are whole ones from now on.
    pub(super) fn admit(&mut self, strategy: &Strategy, keys: usize) {
        let has_room = match self {
            Self::Counts(states) => states.lengths.add(strategy),
            Self::SlotCounts(states) => states.lengths.add(strategy),
            Self::Levels(_) | Self::CalendarCounts(_) | Self::Entries(_) => true,
        };
        if !has_room {
            self.unpack(keys);
        }
    }

    #[cold]
    fn unpack(&mut self, keys: usize) {
        let entries = match self {
            Self::Counts(states) => states.unpack(keys),
            Self::SlotCounts(states) => states.unpack(keys),
            Self::Levels(_) | Self::CalendarCounts(_) | Self::Entries(_) => return,
        };
        *self = Self::Entries(entries);
    }

    /// A copy of a small state.
    pub(super) fn copied(&self, id: u128) -> Option<State> {
        match self {
            Self::Levels(states) => states.get(id),
            Self::Counts(states) => states.get(id),
            Self::CalendarCounts(states) => states.get(id),
            Self::SlotCounts(states) => states.get(id),
            Self::Entries(_) => None,
        }
    }

    /// Whether a small state of a key is known.
    pub(super) fn has(&self, id: u128) -> bool {
        match self {
            Self::Levels(states) => states.table.find(id).is_some(),
            Self::Counts(states) => states.table.find(id).is_some(),
            Self::CalendarCounts(states) => states.table.find(id).is_some(),
            Self::SlotCounts(states) => states.table.find(id).is_some(),
            Self::Entries(_) => false,
        }
    }

    /// Replaces the small state of a key by one that expires at an instant, in microseconds; `None` removes it.
    pub(super) fn replace(&mut self, id: u128, state: Option<&State>, expires_at: u64) {
        match self {
            Self::Levels(states) => states.replace(id, state, expires_at),
            Self::Counts(states) => states.replace(id, state, expires_at),
            Self::CalendarCounts(states) => states.replace(id, state, expires_at),
            Self::SlotCounts(states) => states.replace(id, state, expires_at),
            // They were small when the call copied the state.
            Self::Entries(table) => replace_whole(table, id, state, expires_at),
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
            Self::Levels(states) => states.sweep(now, count, expires_at),
            Self::Counts(states) => states.sweep(now, count, expires_at),
            Self::CalendarCounts(states) => states.sweep(now, count, expires_at),
            Self::SlotCounts(states) => states.sweep(now, count, expiry),
            Self::Entries(table) => {
                table.sweep(now, count, |entry| entry.expires_at, |entry| bounds.adjust(entry.cost(), 0));
            }
        }
    }

    /// See [`Table::forget_expiry`].
    #[cold]
    pub(super) fn forget_expiry(&mut self) {
        match self {
            Self::Levels(states) => states.table.forget_expiry(),
            Self::Counts(states) => states.table.forget_expiry(),
            Self::CalendarCounts(states) => states.table.forget_expiry(),
            Self::SlotCounts(states) => states.table.forget_expiry(),
            // An entry holds the instant at which it expires.
            Self::Entries(_) => {}
        }
    }

    /// Whether an entry still counts at an instant.
    pub(super) fn has_living(&self, expires_at: impl Fn(&State) -> u64, now: Timestamp) -> bool {
        let now = now.as_micros();
        match self {
            Self::Levels(states) => states.any(|state| expires_at(state) > now),
            Self::Counts(states) => states.any(|state| expires_at(state) > now),
            Self::CalendarCounts(states) => states.any(|state| expires_at(state) > now),
            Self::SlotCounts(states) => states.any(|state| expiry(state) > now),
            Self::Entries(table) => table.sample(0, usize::MAX).any(|(_, entry)| entry.expires_at > now),
        }
    }

    pub(super) fn remove(&mut self, id: u128, bounds: &Bounds) {
        match self {
            Self::Levels(states) => states.remove(id),
            Self::Counts(states) => states.remove(id),
            Self::CalendarCounts(states) => states.remove(id),
            Self::SlotCounts(states) => states.remove(id),
            Self::Entries(table) => {
                if let Some(entry) = table.remove(id) {
                    bounds.adjust(entry.cost(), 0);
                }
            }
        }
    }
}

impl<S: Value> SmallEntries<S> {
    fn new(strategy: &Strategy, keys: usize, location: Arc<Location>) -> Self {
        Self { table: Table::located(location, keys), lengths: Lengths::of(strategy) }
    }
}

impl<S: SmallEntry> SmallEntries<S> {
    fn get(&self, id: u128) -> Option<State> {
        self.table.get(id).map(|held| held.state(&self.lengths))
    }

    /// See [`StateTable::replace`].
    fn replace(&mut self, id: u128, state: Option<&State>, expires_at: u64) {
        let Some(state) = state.and_then(|state| S::of(state, &self.lengths)) else {
            self.table.remove(id);
            return;
        };
        match self.table.find(id) {
            Some(index) => self.table.replace(index, state, expires_at),
            None => self.table.insert(id, state, expires_at),
        }
    }

    fn remove(&mut self, id: u128) {
        self.table.remove(id);
    }

    /// A table of all states as whole ones, which takes the place of this one.
    fn unpack(&self, keys: usize) -> Table<Entry> {
        let mut entries = self.table.replacement(keys);
        for (id, held) in self.table.sample(0, usize::MAX) {
            let state = held.state(&self.lengths);
            let expires_at = expiry(&state);
            entries.insert(id, Entry { state: Some(state), expires_at }, expires_at);
        }
        entries
    }

    fn sweep(&mut self, now: u64, count: usize, expires_at: impl Fn(&State) -> u64) {
        self.table.sweep(now, count, |held| expires_at(&held.state(&self.lengths)), drop);
    }

    fn any(&self, is_sought: impl Fn(&State) -> bool) -> bool {
        self.table.sample(0, usize::MAX).any(|(_, held)| is_sought(&held.state(&self.lengths)))
    }
}

/// Replaces a whole state; `None` removes it.
fn replace_whole(table: &mut Table<Entry>, id: u128, state: Option<&State>, expires_at: u64) {
    let Some(state) = state else {
        table.remove(id);
        return;
    };
    let entry = Entry { state: Some(state.clone()), expires_at };
    match table.find(id) {
        Some(index) => table.replace(index, entry, expires_at),
        None => table.insert(id, entry, expires_at),
    }
}

/// When the state of a window expires, under any strategy, in microseconds.
fn expiry(state: &State) -> u64 {
    match state {
        State::Window(window) => window.end,
        State::Slots(slots) => slots.expires_at(),
        State::Tat(_) | State::CalendarCount(_) | State::Log(_) | State::Permits(_) => 0,
    }
}

impl Value for Level {
    type Align = Align32;
}

impl Value for NumberedCount {
    type Align = ();
}

impl Value for Entry {
    type Align = Align64;
}

impl SmallEntry for Level {
    #[inline]
    fn of(state: &State, lengths: &Lengths) -> Option<Self> {
        if let State::Tat(tat) = state { tat.store(lengths) } else { None }
    }

    #[inline]
    fn state(self, lengths: &Lengths) -> State {
        State::Tat(Tat::load(self, lengths))
    }
}

impl SmallEntry for NumberedCount {
    #[inline]
    fn of(state: &State, lengths: &Lengths) -> Option<Self> {
        if let State::CalendarCount(count) = state { count.store(lengths) } else { None }
    }

    #[inline]
    fn state(self, lengths: &Lengths) -> State {
        State::CalendarCount(CalendarCount::load(self, lengths))
    }
}

impl SmallEntryState for Tat {
    type Stored = Level;

    #[inline]
    fn entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<Level>> {
        if let StateTable::Levels(states) = table { Some(states) } else { None }
    }

    #[inline]
    fn entries(table: &StateTable) -> Option<&SmallEntries<Level>> {
        if let StateTable::Levels(states) = table { Some(states) } else { None }
    }

    #[inline]
    fn load(Level { micros, remainder }: Level, _: &Lengths) -> Self {
        Self { micros, remainder }
    }

    #[inline]
    fn store(self, _: &Lengths) -> Option<Level> {
        let Self { micros, remainder } = self;
        Some(Level { micros, remainder })
    }
}

impl SmallEntryState for Window {
    type Stored = WindowCount;

    #[inline]
    fn entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<WindowCount>> {
        if let StateTable::Counts(states) = table { Some(states) } else { None }
    }

    #[inline]
    fn entries(table: &StateTable) -> Option<&SmallEntries<WindowCount>> {
        if let StateTable::Counts(states) = table { Some(states) } else { None }
    }

    #[inline]
    fn load(stored: WindowCount, lengths: &Lengths) -> Self {
        stored.window(lengths)
    }

    #[inline]
    fn store(self, lengths: &Lengths) -> Option<WindowCount> {
        WindowCount::new(self, lengths)
    }
}

impl SmallEntryState for CalendarCount {
    type Stored = NumberedCount;

    #[inline]
    fn entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<NumberedCount>> {
        if let StateTable::CalendarCounts(states) = table { Some(states) } else { None }
    }

    #[inline]
    fn entries(table: &StateTable) -> Option<&SmallEntries<NumberedCount>> {
        if let StateTable::CalendarCounts(states) = table { Some(states) } else { None }
    }

    #[inline]
    fn load(NumberedCount { window, end, count }: NumberedCount, _: &Lengths) -> Self {
        Self { window, end, count }
    }

    #[inline]
    fn store(self, _: &Lengths) -> Option<NumberedCount> {
        let Self { window, end, count } = self;
        Some(NumberedCount { window, end, count })
    }
}
