//! The states of windows in sixteen bytes: with the length of a window in a list of the shard.

use portcullis_core::Strategy;
use portcullis_core::algorithm::{Slots, Window};

use crate::shards::unlocked::Words;

/// The lengths of the windows in a shard, in microseconds.
/// A policy has one, but for the shares of instances that are more than the limit. A shard with more of these than fit here
/// [has whole states](super::state_table::StateTable::admit) instead.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// The length of the first strategy, which nearly all entries have.
    first: u64,
    others: Vec<u64>,
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

impl Lengths {
    pub(super) fn of(strategy: &Strategy) -> Self {
        Self { first: length(strategy).unwrap_or(0), others: Vec::new() }
    }

    #[inline]
    fn get(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            None => self.first,
            Some(index) => self.others.get(index).copied().unwrap_or(0),
        }
    }

    #[inline]
    fn index_of(&self, length: u64) -> Option<usize> {
        if length == self.first { Some(0) } else { self.index_of_other(length) }
    }

    #[cold]
    fn index_of_other(&self, length: u64) -> Option<usize> {
        self.others.iter().position(|other| *other == length).map(|index| index + 1)
    }

    /// Adds the length of the strategy's windows. Returns `false` if there is no room for it.
    pub(super) fn add(&mut self, strategy: &Strategy) -> bool {
        let Some(length) = length(strategy).filter(|length| self.index_of(*length).is_none()) else {
            return true;
        };
        let has_room = self.others.len() + 1 < LENGTHS;
        if has_room {
            self.others.push(length);
        }
        has_room
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
        debug_assert!(
            newest <= MAX_COUNT && oldest <= MAX_COUNT,
            "the counts of one slot exceed the largest limit and its debt"
        );
        let (newest, oldest) = (newest.min(MAX_COUNT), oldest.min(MAX_COUNT));
        let counts = (oldest >> (u64::BITS - COUNT_BITS), newest | oldest << COUNT_BITS);
        Some(Self(Packed::new(slots.end(), counts, lengths.index_of(slots.width())?)))
    }
}

/// The numbers that the slots of a window with one slot consist of.
pub(super) fn words(slots: &Slots) -> Option<Words> {
    let &[newest, oldest] = slots.counts() else { return None };
    Some([slots.end(), slots.width(), newest, oldest])
}

/// The slots that consist of these numbers.
#[inline]
pub(crate) fn slots_of([end, width, newest, oldest]: Words) -> Slots {
    Slots::new(end, width, [newest, oldest])
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
        Lengths { first: lengths[0], others: lengths[1..].to_vec() }
    }

    proptest! {
        #[test]
        fn packed_window_is_the_same(
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
    fn list_has_a_bounded_number_of_lengths() {
        let window = |length| {
            let quota = Quota::per(1, std::time::Duration::from_secs(length));
            Strategy::FixedWindow(FixedWindow::new(quota).unwrap())
        };
        let mut lengths = Lengths::of(&window(1));
        assert!((1..=64).all(|length| lengths.add(&window(length)) && lengths.add(&window(length))));
        assert!(!lengths.add(&window(65)) && lengths.add(&window(64)));
        let slots = SlidingWindow::new(Quota::per_second(1)).unwrap();
        assert_eq!(length(&Strategy::SlidingWindow(slots)), Some(1_000_000));
    }
}
