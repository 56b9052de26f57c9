//! The highest level of a meter, in the form in which most decisions need it.

/// The highest level at which a cost is admitted, in 1/q microseconds, if it is at most a quarter of 2^64 and the ceiling at most
/// half of it; else the longest wait.
///
/// It is computed when the meter is made, so that a decision with a longest wait does the same steps as one without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Room(u64);

impl Room {
    pub(super) const NONE: Self = Self(0);

    /// `wait` is in microseconds, and less than [`WIDE`].
    #[expect(clippy::cast_possible_truncation, reason = "the branch bounds it")]
    pub(super) const fn new(highest: u128, ceiling: u128, wait: u64) -> Self {
        let is_narrow = highest <= MAX_NARROW as u128 && ceiling <= MAX_NARROW_CEILING as u128;
        if is_narrow { Self(highest as u64) } else { Self(WIDE | wait) }
    }

    /// The highest level, if 64 bits are enough for every sum of a decision.
    #[inline]
    pub(super) const fn narrow(self) -> Option<u64> {
        if self.0 <= MAX_NARROW { Some(self.0) } else { None }
    }

    /// The longest wait in microseconds, of a level that is not [narrow](Room::narrow).
    pub(super) const fn wait(self) -> u64 {
        self.0 & !WIDE
    }
}

/// The sum of three such levels is below 2^64.
const MAX_NARROW: u64 = u64::MAX / 4;

/// A charge adds at most the highest level to one that is at most the ceiling.
const MAX_NARROW_CEILING: u64 = 2 * MAX_NARROW;

/// Marks a level that is not narrow.
const WIDE: u64 = 1 << 63;
