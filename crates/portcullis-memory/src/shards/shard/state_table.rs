//! The states of the keys of a shard, each kind in entries of its own size.

use std::sync::Arc;

use portcullis_core::algorithm::{CalendarCount, State, Tat, Window};
use portcullis_core::{Strategy, Timestamp};

use super::small_entry::{Level, NumberedCount, SmallEntry, StoredState, WholeLevel};
use super::windows::{Lengths, SlotCounts, WindowCount};
use super::{Bounds, Entry};
use crate::shards::unlocked::Words;
use crate::table::{Align64, Location, Table, Value};

/// The states of keys. All states of a policy are of one kind, because the strategy is part of the policy's digest.
#[derive(Debug)]
pub(crate) enum StateTable {
    /// Levels of strategies under which none has a remainder.
    WholeLevels(SmallEntries<WholeLevel>),
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

/// Evaluates an expression with the small states of a table, or another one with its whole states.
macro_rules! with_states {
    ($table:expr, $states:ident => $small:expr, $whole:pat => $other:expr) => {
        match $table {
            StateTable::WholeLevels($states) => $small,
            StateTable::Levels($states) => $small,
            StateTable::Counts($states) => $small,
            StateTable::CalendarCounts($states) => $small,
            StateTable::SlotCounts($states) => $small,
            StateTable::Entries($whole) => $other,
        }
    };
}

/// The state of an algorithm whose policies store it as a [small entry](SmallEntry).
pub(crate) trait SmallEntryState: Copy {
    /// What a table stores of it.
    type Stored: StoredState<Self>;
    /// What a table stores of it where less is enough.
    type Short: StoredState<Self>;

    /// The states of this kind; `None` if the shard has states of another kind.
    fn entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<Self::Stored>>;

    /// Like [`entries_mut`](Self::entries_mut), for those that are stored in less memory.
    fn short_entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<Self::Short>>;

    /// The numbers that the state consists of.
    fn words(self) -> Words;

    fn of_words(words: Words) -> Self;
}

impl StateTable {
    /// Space for the states of at most `keys` keys under a strategy.
    pub(super) fn new(strategy: &Strategy, keys: usize, location: Arc<Location>) -> Self {
        match strategy {
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                if has_remainders(strategy) {
                    Self::Levels(SmallEntries::new(strategy, keys, location))
                } else {
                    Self::WholeLevels(SmallEntries::new(strategy, keys, location))
                }
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
        with_states!(self, states => states.table.len(), table => table.len())
    }

    /// Makes room for the states of a strategy: if levels have had no remainders, all `keys` levels have from now on; if the list of lengths is
    /// full, all states are whole ones.
    pub(super) fn admit(&mut self, strategy: &Strategy, keys: usize) {
        if let Self::WholeLevels(states) = self
            && has_remainders(strategy)
        {
            *self = Self::Levels(states.with_remainders(strategy, keys));
        }
        // Only windows have lengths.
        if !with_states!(self, states => states.lengths.add(strategy), _ => true) {
            self.unpack(keys);
        }
    }

    #[cold]
    fn unpack(&mut self, keys: usize) {
        *self = Self::Entries(with_states!(self, states => states.unpack(keys), _ => return));
    }

    /// A copy of a small state.
    pub(super) fn copied(&self, id: u128) -> Option<State> {
        with_states!(self, states => states.get(id), _ => None)
    }

    /// Whether a small state of a key is known.
    pub(super) fn has(&self, id: u128) -> bool {
        with_states!(self, states => states.table.find(id).is_some(), _ => false)
    }

    /// Replaces the small state of a key by one that expires at an instant, in microseconds; `None` removes it.
    pub(super) fn replace(&mut self, id: u128, state: Option<&State>, expires_at: u64) {
        with_states!(
            self,
            states => states.replace(id, state, expires_at),
            // They were small when the call copied the state.
            table => replace(table, id, whole(state, expires_at), expires_at)
        );
    }

    /// Inspects the next `count` entries and drops those that have expired.
    pub(super) fn sweep(
        &mut self,
        expires_at: impl Fn(&State) -> u64,
        now: Timestamp,
        count: usize,
        bounds: &Bounds,
    ) {
        let (now, expires_at) = (now.as_micros(), expiry_by(expires_at));
        with_states!(
            self,
            states => states.sweep(now, count, expires_at),
            table => table.sweep(now, count, |entry| entry.expires_at, |entry| bounds.adjust(entry.cost(), 0))
        );
    }

    /// See [`Table::forget_expiry`].
    #[cold]
    pub(super) fn forget_expiry(&mut self) {
        // A whole entry holds the instant at which it expires.
        with_states!(self, states => states.table.forget_expiry(), _ => {});
    }

    /// Whether an entry still counts at an instant.
    pub(super) fn has_living(&self, expires_at: impl Fn(&State) -> u64, now: Timestamp) -> bool {
        let (now, expires_at) = (now.as_micros(), expiry_by(expires_at));
        with_states!(
            self,
            states => states.any(|state| expires_at(state) > now),
            table => table.sample(0, usize::MAX).any(|(_, entry)| entry.expires_at > now)
        )
    }

    pub(super) fn remove(&mut self, id: u128, bounds: &Bounds) {
        with_states!(
            self,
            states => drop(states.table.remove(id)),
            table => if let Some(entry) = table.remove(id) {
                bounds.adjust(entry.cost(), 0);
            }
        );
    }
}

impl<S: Value> SmallEntries<S> {
    fn new(strategy: &Strategy, keys: usize, location: Arc<Location>) -> Self {
        Self { table: Table::located(location, keys), lengths: Lengths::of(strategy) }
    }
}

impl SmallEntries<WholeLevel> {
    /// The same levels with room for remainders, in a table that takes the place of this one.
    #[cold]
    fn with_remainders(&self, strategy: &Strategy, keys: usize) -> SmallEntries<Level> {
        let mut table = self.table.replacement(keys);
        for (id, WholeLevel { micros }) in self.table.sample(0, usize::MAX) {
            table.insert(id, Level { micros: *micros, remainder: 0 }, 0);
        }
        SmallEntries { table, lengths: Lengths::of(strategy) }
    }
}

impl<S: SmallEntry> SmallEntries<S> {
    fn get(&self, id: u128) -> Option<State> {
        self.table.get(id).map(|held| held.state(&self.lengths))
    }

    /// See [`StateTable::replace`].
    fn replace(&mut self, id: u128, state: Option<&State>, expires_at: u64) {
        let state = state.and_then(|state| S::of(state, &self.lengths));
        replace(&mut self.table, id, state, expires_at);
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

/// Replaces the entry of a key; `None` removes it.
fn replace<V: Value>(table: &mut Table<V>, id: u128, entry: Option<V>, expires_at: u64) {
    match (entry, table.find(id)) {
        (None, _) => drop(table.remove(id)),
        (Some(entry), Some(index)) => table.replace(index, entry, expires_at),
        (Some(entry), None) => table.insert(id, entry, expires_at),
    }
}

fn whole(state: Option<&State>, expires_at: u64) -> Option<Entry> {
    state.map(|state| Entry { state: Some(state.clone()), expires_at })
}

/// When a state expires: slots by themselves, whatever the strategy.
fn expiry_by(by_strategy: impl Fn(&State) -> u64) -> impl Fn(&State) -> u64 {
    move |state| if matches!(state, State::Slots(_)) { expiry(state) } else { by_strategy(state) }
}

/// When the state of a window expires, under any strategy, in microseconds.
fn expiry(state: &State) -> u64 {
    match state {
        State::Window(window) => window.end,
        State::Slots(slots) => slots.expires_at(),
        State::Tat(_) | State::CalendarCount(_) | State::Log(_) | State::Permits(_) => 0,
    }
}

impl Value for Entry {
    type Align = Align64;
}

/// Whether a level may have a remainder under a strategy.
fn has_remainders(strategy: &Strategy) -> bool {
    strategy.meter().is_some_and(|meter| meter.denominator() > 1)
}

/// Makes entries of the states of an algorithm, in tables of a kind, or of two.
macro_rules! small_entry {
    ($state:ident { $($field:ident),+ } in $tables:ident: $stored:ident $(, or $shorter:ident: $short:ident)?) => {
        impl SmallEntryState for $state {
            type Stored = $stored;
            type Short = small_entry!(@last $stored $($short)?);

            #[inline]
            fn entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<$stored>> {
                if let StateTable::$tables(states) = table { Some(states) } else { None }
            }

            #[inline]
            fn short_entries_mut(table: &mut StateTable) -> Option<&mut SmallEntries<Self::Short>> {
                match table {
                    $(StateTable::$shorter(states) => Some(states),)?
                    _ => None,
                }
            }

            #[inline]
            fn words(self) -> Words {
                let mut words = Words::default();
                for (word, field) in words.iter_mut().zip([$(self.$field),+]) {
                    *word = field;
                }
                words
            }

            #[inline]
            fn of_words(words: Words) -> Self {
                let [$($field),+, ..] = words;
                Self { $($field),+ }
            }
        }
    };
    (@last $stored:ident) => { $stored };
    (@last $stored:ident $short:ident) => { $short };
}

small_entry!(Tat { micros, remainder } in Levels: Level, or WholeLevels: WholeLevel);
small_entry!(Window { end, length, count } in Counts: WindowCount);
small_entry!(CalendarCount { window, end, count } in CalendarCounts: NumberedCount);
