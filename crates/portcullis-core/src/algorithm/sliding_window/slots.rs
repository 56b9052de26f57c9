//! The counts of a sliding window, and how they expire.

use alloc::boxed::Box;

use smallvec::SmallVec;

/// The counts of a sliding window: one per slot, and one for the slot before them, which leaves the window.
///
/// ```
/// use portcullis_core::algorithm::Slots;
///
/// let slots = Slots::new(120_000_000, 60_000_000, [3, 5]);
/// assert_eq!((slots.end(), slots.width(), slots.counts()), (120_000_000, 60_000_000, [3, 5].as_slice()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots {
    end: u64,
    width: u64,
    counts: Counts,
}

/// The two counts of a window with one slot are where the state is, so that a decision about it reads no other memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Counts {
    Two([u64; 2]),
    /// Any other number.
    Many(Box<[u64]>),
}

impl Slots {
    /// Slots of `width` microseconds. The newest one ends at `end`, in microseconds since the Unix epoch, and its count comes
    /// first.
    #[inline]
    pub fn new(end: u64, width: u64, counts: impl IntoIterator<Item = u64>) -> Self {
        Self { end, width, counts: Counts::new(counts.into_iter()) }
    }

    /// The end of the newest slot, in microseconds since the Unix epoch.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The length of a slot, in microseconds. Slots of another length belong to another policy.
    #[inline]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Units charged per slot, the newest first.
    #[inline]
    pub fn counts(&self) -> &[u64] {
        self.counts.as_slice()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        bytes_of(self.counts().len())
    }

    /// The first instant at which no unit counts, in microseconds since the Unix epoch.
    // For the memory store alone, which keeps slots of several lengths.
    #[doc(hidden)]
    pub fn expires_at(&self) -> u64 {
        self.at(self.end, self.begin()).first_at_most(0)
    }

    pub(super) fn begin(&self) -> u64 {
        self.end.saturating_sub(self.width)
    }

    pub(super) fn count_mut(&mut self, index: usize) -> Option<&mut u64> {
        self.counts.as_mut_slice().get_mut(index)
    }

    pub(super) fn charge_newest(&mut self, units: u64) {
        if let Some(newest) = self.counts.as_mut_slice().first_mut() {
            *newest = newest.saturating_add(units);
        }
    }

    /// Makes the newest slot the one that ends at `end`, `passed` slots later.
    pub(super) fn shift(&mut self, passed: usize, end: u64) {
        self.end = end;
        let counts = self.counts.as_mut_slice();
        let passed = passed.min(counts.len());
        if passed == 0 {
            return;
        }
        counts.rotate_right(passed);
        counts[..passed].fill(0);
    }

    /// The slots at `now` if the newest of them ends at `end`.
    pub(super) fn at(&self, end: u64, now: u64) -> SlotsAt<'_> {
        let (width, counts) = (self.width, self.counts());
        let passed = if now < end {
            0
        } else {
            now.saturating_add(width).saturating_sub(end).checked_div(width).unwrap_or(0)
        };
        let end = end.saturating_add(passed.saturating_mul(width));
        let (full, fading) = split(counts, passed);
        let used = full.saturating_add(share(fading, end.saturating_sub(now), width));
        SlotsAt { counts, width, passed, end, now, used }
    }

    /// The slots at an instant in the newest of them, at which `used` units count.
    pub(super) fn charged_at(&self, now: u64, used: u64) -> SlotsAt<'_> {
        SlotsAt { counts: self.counts(), width: self.width, passed: 0, end: self.end, now, used }
    }
}

/// The number of heap bytes of slots with this number of counts.
pub(super) const fn bytes_of(counts: usize) -> usize {
    if counts == 2 { 0 } else { counts.saturating_mul(size_of::<u64>()) }
}

impl Counts {
    #[inline]
    fn new(mut counts: impl Iterator<Item = u64>) -> Self {
        if counts.size_hint() == (2, Some(2))
            && let (Some(newest), Some(oldest)) = (counts.next(), counts.next())
        {
            return Self::Two([newest, oldest]);
        }
        // `collect` would allocate the next power of two.
        let mut exact = SmallVec::<[u64; 2]>::with_capacity(counts.size_hint().0);
        exact.extend(counts);
        exact.into_inner().map_or_else(|many| Self::Many(many.into_boxed_slice()), Self::Two)
    }

    #[inline]
    fn as_slice(&self) -> &[u64] {
        match self {
            Self::Two(counts) => counts,
            Self::Many(counts) => counts,
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [u64] {
        match self {
            Self::Two(counts) => counts,
            Self::Many(counts) => counts,
        }
    }
}

/// Slots at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotsAt<'s> {
    counts: &'s [u64],
    width: u64,
    /// The number of slots that have begun since the newest charged one.
    passed: u64,
    /// The end of the slot that `now` is in.
    end: u64,
    now: u64,
    /// The sum of the full slots, and the share of the slot that leaves the window.
    used: u64,
}

impl SlotsAt<'_> {
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The number of slots that have begun since the newest charged one, at most the number of counts.
    pub(super) fn passed(&self) -> usize {
        usize::try_from(self.passed).unwrap_or(usize::MAX).min(self.counts.len())
    }

    /// The units charged in the slot that is `index` slots before the current one.
    pub(super) fn count(&self, index: usize) -> u64 {
        index.checked_sub(self.passed()).and_then(|index| self.counts.get(index)).copied().unwrap_or(0)
    }

    /// The index of the slot that ends at `end`: the number of slots before the current one.
    pub(super) fn index_of(&self, end: u64) -> Option<usize> {
        let back = self.end.checked_sub(end)?.checked_div(self.width)?;
        usize::try_from(back).ok().filter(|index| *index < self.counts.len())
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The first instant, from now on, at which at most `most` units count.
    pub(super) fn first_at_most(&self, most: u64) -> u64 {
        if self.used <= most {
            return self.now;
        }
        let (mut end, (mut full, mut fading)) = (self.end, split(self.counts, self.passed));
        let mut kept = self.counts.iter().rev().skip(self.passed()).skip(1);
        loop {
            if let Some(headroom) = most.checked_sub(full) {
                let left = longest_left(fading, headroom, self.width);
                return end.saturating_sub(left).max(self.now);
            }
            // The oldest full slot leaves the window next.
            fading = kept.next().copied().unwrap_or(full);
            full = full.saturating_sub(fading);
            end = end.saturating_add(self.width);
        }
    }
}

/// The sum of the full slots and the count of the slot that leaves the window, after `passed` slots have begun.
fn split(counts: &[u64], passed: u64) -> (u64, u64) {
    let passed = usize::try_from(passed).unwrap_or(usize::MAX);
    let Some((fading, full)) =
        counts.len().checked_sub(passed).and_then(|kept| counts.get(..kept)?.split_last())
    else {
        return (0, 0);
    };
    (full.iter().fold(0_u64, |sum, count| sum.saturating_add(*count)), *fading)
}

/// `count * left / width`, rounded down.
///
/// In 64 bits where the product fits: a division of 128 bits is a call that takes several times as long.
#[expect(clippy::arithmetic_side_effects, reason = "a slot is not empty")]
fn share(count: u64, left: u64, width: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    if let Some(product) = count.checked_mul(left) {
        return product / width;
    }
    let share = u128::from(count).saturating_mul(left.into()) / u128::from(width);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The longest time left in a slot with which the share of `count` is at most `headroom`: the greatest with
/// `count * left < (headroom + 1) * width`, below the width itself.
fn longest_left(count: u64, headroom: u64, width: u64) -> u64 {
    // Without a division: a whole slot fits.
    if headroom >= count {
        return width;
    }
    // Likewise: one unit has to leave, as for the wait until the next unit is available.
    if headroom.saturating_add(1) == count {
        return width.saturating_sub(1);
    }
    let narrow = headroom.checked_add(1).and_then(|units| units.checked_mul(width));
    let left = narrow.map_or_else(
        || {
            let above = u128::from(headroom).saturating_add(1).saturating_mul(width.into());
            u64::try_from(above.div_ceil(count.into()).saturating_sub(1)).unwrap_or(width)
        },
        |above| above.div_ceil(count).saturating_sub(1),
    );
    left.min(width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Products of two of them lie below, around and above 2^64, where the division changes its width.
    fn any_size() -> impl Strategy<Value = u64> {
        prop_oneof![1_u64..100, 1_u64..1 << 33, 1_u64..=u64::MAX, Just(u64::MAX)]
    }

    proptest! {
        #[test]
        fn narrow_arithmetic_equals_that_of_128_bits(
            count in any_size(), left in any_size(), width in any_size(), headroom in any_size()
        ) {
            let wide = u128::from(count) * u128::from(left) / u128::from(width);
            prop_assert_eq!(share(count, left, width), u64::try_from(wide).unwrap_or(u64::MAX));
            let above = (u128::from(headroom) + 1) * u128::from(width);
            let greatest = (above.div_ceil(count.into()) - 1).min(width.into());
            prop_assert_eq!(u128::from(longest_left(count, headroom, width)), greatest);
            prop_assert_eq!(longest_left(0, headroom, width), width);
            for headroom in [count - 1, count, count.saturating_add(1)] {
                let above = (u128::from(headroom) + 1) * u128::from(width);
                let greatest = (above.div_ceil(count.into()) - 1).min(width.into());
                prop_assert_eq!(u128::from(longest_left(count, headroom, width)), greatest);
            }
        }
    }
}
