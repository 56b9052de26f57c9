//! The states of windows in sixteen bytes: with the length of a window in a list of the shard.

use portcullis_core::Strategy;
use portcullis_core::algorithm::{Slots, State, Window};

use super::own::Small;
use crate::table::{Align32, Table, Value};

/// The lengths of the windows in a shard, in microseconds.
///
/// All windows of a policy have one length, which its digest contains, but for the shares of instances that are more than the limit: those
/// are longer, each by a whole factor.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// That of the first strategy, which nearly all entries have.
    first: u64,
    /// Boxed, so that the shard stays small.
    others: Option<Box<Others>>,
}

/// The lengths after the first, for the entries that have another.
#[derive(Debug, Default)]
struct Others {
    lengths: Vec<u64>,
    /// The lengths that had no room since the entries were last inspected for lengths that none has.
    refused: usize,
}

/// The count of a fixed window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowCount(Packed);

/// The counts of a sliding window with one slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotCounts(Packed);

/// The end of a window and the index of its length, with 68 bits for counts.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    /// From the lowest bit: the [end](END_BITS), [further](FURTHER_BITS) bits of the counts, the index.
    end: u64,
    counts: u64,
}

/// An entry of a window.
pub(super) trait Counts: Copy + Value {
    /// The index of its length.
    fn index(self) -> usize;
}

impl Lengths {
    pub(super) fn of(strategy: &Strategy) -> Self {
        Self { first: length(strategy).unwrap_or(0), others: None }
    }

    #[inline]
    fn get(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            None => self.first,
            Some(index) => self.others().get(index).copied().unwrap_or(0),
        }
    }

    #[inline]
    fn index_of(&self, length: u64) -> Option<usize> {
        if length == self.first { Some(0) } else { self.index_of_other(length) }
    }

    #[cold]
    fn others(&self) -> &[u64] {
        self.others.as_deref().map_or(&[], |others| &others.lengths)
    }

    #[cold]
    fn index_of_other(&self, length: u64) -> Option<usize> {
        self.others().iter().position(|other| *other == length).map(|index| index + 1)
    }

    /// Makes room for windows of the strategy's length. Returns whether there is some.
    pub(super) fn admit(&mut self, strategy: &Strategy, table: &Table<impl Counts>) -> bool {
        let Some(length) = length(strategy) else { return true };
        if self.index_of(length).is_some() {
            return true;
        }
        let others = self.others.get_or_insert_default();
        if others.lengths.len() + 1 < LENGTHS {
            others.lengths.push(length);
            return true;
        }
        others.refused += 1;
        // All entries are inspected, but not by every call.
        if others.refused > table.len() {
            others.refused = 0;
            let used = table.sample(0, usize::MAX).fold(0_u64, |used, (_, entry)| used | 1 << entry.index());
            if let Some(other) = others.lengths.get_mut((used >> 1).trailing_ones() as usize) {
                *other = length;
                return true;
            }
        }
        false
    }
}

/// The length of the windows of a strategy, or of the slot of a sliding window with one, in microseconds.
fn length(strategy: &Strategy) -> Option<u64> {
    let length = match strategy {
        Strategy::FixedWindow(window) => window.period(),
        Strategy::SlidingWindow(window) => window.slot(),
        Strategy::TokenBucket(_)
        | Strategy::Gcra(_)
        | Strategy::LeakyBucket(_)
        | Strategy::CalendarWindow(_)
        | Strategy::SlidingLog(_)
        | Strategy::InFlight(_) => return None,
    };
    u64::try_from(length.as_micros()).ok()
}

impl WindowCount {
    #[inline]
    pub(super) fn window(self, lengths: &Lengths) -> Window {
        Window { end: self.0.end(), length: lengths.get(self.0.index()), count: self.0.counts }
    }

    /// Returns `None` if there is no room for its length.
    #[inline]
    pub(super) fn new(window: Window, lengths: &Lengths) -> Option<Self> {
        let Window { end, length, count } = window;
        Some(Self(Packed::new(end, (0, count), lengths.index_of(length)?)))
    }
}

impl SlotCounts {
    #[inline]
    pub(super) fn slots(self, lengths: &Lengths) -> Slots {
        let (newest, oldest) = (self.0.counts & MAX_COUNT, self.0.counts >> COUNT_BITS);
        let further = self.0.further() << (u64::BITS - COUNT_BITS);
        Slots::new(self.0.end(), lengths.get(self.0.index()), [newest, oldest | further])
    }

    /// Returns `None` if there is no room for the length of a slot.
    #[inline]
    pub(super) fn new(slots: &Slots, lengths: &Lengths) -> Option<Self> {
        let &[newest, oldest] = slots.counts() else { return None };
        let (newest, oldest) = (newest.min(MAX_COUNT), oldest.min(MAX_COUNT));
        let counts = (oldest >> (u64::BITS - COUNT_BITS), newest | oldest << COUNT_BITS);
        Some(Self(Packed::new(slots.end(), counts, lengths.index_of(slots.width())?)))
    }
}

impl Packed {
    #[inline]
    fn new(end: u64, (further, counts): (u64, u64), index: usize) -> Self {
        Self { end: end | further << END_BITS | (index as u64) << (END_BITS + FURTHER_BITS), counts }
    }

    #[inline]
    fn end(self) -> u64 {
        self.end & ((1 << END_BITS) - 1)
    }

    #[inline]
    fn further(self) -> u64 {
        self.end >> END_BITS & ((1 << FURTHER_BITS) - 1)
    }

    #[inline]
    fn index(self) -> usize {
        (self.end >> (END_BITS + FURTHER_BITS)) as usize
    }
}

impl Counts for WindowCount {
    fn index(self) -> usize {
        self.0.index()
    }
}

impl Counts for SlotCounts {
    fn index(self) -> usize {
        self.0.index()
    }
}

impl Value for WindowCount {
    type Align = Align32;
}

impl Value for SlotCounts {
    type Align = Align32;
}

impl Small for WindowCount {
    fn of(state: &State, lengths: &Lengths) -> Option<Self> {
        if let State::Window(window) = state { Self::new(*window, lengths) } else { None }
    }

    fn state(self, lengths: &Lengths) -> State {
        State::Window(self.window(lengths))
    }
}

impl Small for SlotCounts {
    fn of(state: &State, lengths: &Lengths) -> Option<Self> {
        if let State::Slots(slots) = state { Self::new(slots, lengths) } else { None }
    }

    fn state(self, lengths: &Lengths) -> State {
        State::Slots(self.slots(lengths))
    }
}

/// The most lengths in a shard.
const LENGTHS: usize = 64;
/// An instant is below 2^53 microseconds, and a period at most 2^51.
const END_BITS: u32 = 54;
/// A sliding window has a limit below 2^32, and its counts are at most the limit and a debt: together less than four times that.
const COUNT_BITS: u32 = 34;
const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;
const FURTHER_BITS: u32 = 2 * COUNT_BITS - u64::BITS;
const _: () = assert!(END_BITS + FURTHER_BITS + LENGTHS.ilog2() == u64::BITS);

#[cfg(test)]
mod tests {
    use portcullis_core::{FixedWindow, Quota, SlidingWindow};
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    fn lengths(lengths: &[u64]) -> Lengths {
        let others = Others { lengths: lengths[1..].to_vec(), refused: 0 };
        Lengths { first: lengths[0], others: Some(Box::new(others)) }
    }

    proptest! {
        #[test]
        fn a_packed_window_is_the_same(
            end in 0_u64..1 << END_BITS, count in any::<u64>(), all in proptest::collection::vec(any::<u64>(), 1..=LENGTHS),
            index in any::<prop::sample::Index>(), counts in [0..=MAX_COUNT, 0..=MAX_COUNT],
        ) {
            let (length, lengths) = (*index.get(&all), lengths(&all));
            let window = Window { end, length, count };
            prop_assert_eq!(WindowCount::new(window, &lengths).unwrap().window(&lengths), window);
            let slots = Slots::new(end, length, counts);
            prop_assert_eq!(SlotCounts::new(&slots, &lengths).unwrap().slots(&lengths), slots);
        }
    }

    #[test]
    fn a_length_that_no_entry_has_makes_room() {
        let window = |length| {
            let quota = Quota::per(1, std::time::Duration::from_secs(length));
            Strategy::FixedWindow(FixedWindow::new(quota).unwrap())
        };
        let (mut lengths, mut table) = (Lengths::of(&window(1)), Table::new(100));
        for length in 1..=64 {
            assert!(lengths.admit(&window(length), &table));
            let window = Window { end: 9, length: length * 1_000_000, count: 1 };
            table.insert(length.into(), WindowCount::new(window, &lengths).unwrap(), 9);
        }
        assert!((0..1_000).all(|_| !lengths.admit(&window(65), &table)));
        table.remove(7);
        let tries = (0..1_000).take_while(|_| !lengths.admit(&window(65), &table)).count();
        assert!(tries < 64 && lengths.admit(&window(65), &table) && lengths.index_of(7_000_000).is_none());
        assert!(lengths.admit(&window(64), &table));
        let slots = SlidingWindow::new(Quota::per_second(1)).unwrap();
        assert_eq!(length(&Strategy::SlidingWindow(slots)), Some(1_000_000));
    }
}
