//! The windows of a calendar, as a table of instants.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Range;
use core::time::Duration;

use crate::Timestamp;

/// The starts of all windows of a calendar in one time zone, such as the months in Europe/Berlin.
///
/// A window has a number, and ends where the next one begins. Numbers come from the calendar, not from the instants: two
/// processes whose time zone data differ give the same month the same number. Before the first start there is one window, which
/// has the number before `first`, and after the last start one that ends at [`Timestamp::MAX`].
///
/// A table lives as long as the process, so that a strategy that refers to it can be copied. The feature `calendar` of the crate
/// `portcullis` makes tables from time zone data; this crate has none.
///
/// ```
/// use portcullis::Timestamp;
/// use portcullis::store::WindowTable;
///
/// /// January, February and March 2026 in UTC. Months are counted from January 1970, which is 1.
/// static MONTHS: [Timestamp; 3] = [
///     Timestamp::from_micros(1_767_225_600_000_000),
///     Timestamp::from_micros(1_769_904_000_000_000),
///     Timestamp::from_micros(1_772_323_200_000_000),
/// ];
///
/// let table = WindowTable::new("months in UTC", 673, &MONTHS)?;
/// let valentine = Timestamp::from_micros(1_771_027_200_000_000);
/// assert_eq!(table.number_at(valentine), 674);
/// assert_eq!(table.window(674), MONTHS[1]..MONTHS[2]);
/// assert_eq!(table.longest().as_secs(), 31 * 86_400);
/// # Ok::<(), portcullis::store::WindowTableError>(())
/// ```
#[derive(Clone, Copy)]
pub struct WindowTable {
    name: &'static str,
    data_version: Option<&'static str>,
    first: u64,
    starts: &'static [Timestamp],
    /// In microseconds.
    longest: u64,
}

impl WindowTable {
    /// The highest number of a window.
    pub const MAX_NUMBER: u64 = u32::MAX as u64;

    /// A table of windows, of which the first in `starts` has the number `first`. `name` describes it in logs and errors, and identifies
    /// the windows: tables of one calendar from different time zone data have one name and share their states, and a table with another
    /// name has states of its own.
    ///
    /// # Errors
    ///
    /// If there are fewer than two starts, if they are not in ascending order, or if a number is 0 or more than
    /// [`MAX_NUMBER`](WindowTable::MAX_NUMBER).
    pub const fn new(
        name: &'static str,
        first: u64,
        starts: &'static [Timestamp],
    ) -> Result<Self, WindowTableError> {
        if starts.len() < 2 {
            return Err(WindowTableError::TooFewStarts { starts: starts.len() });
        }
        if first == 0
            || first > Self::MAX_NUMBER
            || starts.len() as u64 > Self::MAX_NUMBER.saturating_sub(first)
        {
            return Err(WindowTableError::NumberOutOfRange { first, starts: starts.len() });
        }
        let (mut longest, mut rest) = (0, starts);
        while let [start, tail @ ..] = rest
            && let [end, ..] = tail
        {
            if end.as_micros() <= start.as_micros() {
                return Err(WindowTableError::NotAscending { start: *end });
            }
            let length = end.as_micros().saturating_sub(start.as_micros());
            if length > longest {
                longest = length;
            }
            rest = tail;
        }
        Ok(Self { name, data_version: None, first, starts, longest })
    }

    /// States the version of the time zone data that the table was made from.
    #[must_use]
    pub const fn made_from(self, data_version: &'static str) -> Self {
        Self { data_version: Some(data_version), ..self }
    }

    /// The description for logs and errors, which is also part of the [structure](crate::store::Structure) of a policy.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The version of the time zone data that the table was made from, if it is known.
    pub const fn data_version(&self) -> Option<&'static str> {
        self.data_version
    }

    /// The starts of the windows, in ascending order.
    pub const fn starts(&self) -> &'static [Timestamp] {
        self.starts
    }

    /// The number of the window that begins first in [`starts`](WindowTable::starts).
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The length of the longest window between two starts.
    pub const fn longest(&self) -> Duration {
        Duration::from_micros(self.longest)
    }

    /// The number of the window that an instant is in.
    #[inline]
    pub fn number_at(&self, now: Timestamp) -> u64 {
        let begun = self.starts.partition_point(|start| *start <= now);
        self.first.saturating_sub(1).saturating_add(begun as u64)
    }

    /// From the start of a window to its end, which it does not include.
    pub fn window(&self, number: u64) -> Range<Timestamp> {
        let before = number.checked_sub(1);
        before.map_or(Timestamp::EPOCH, |before| self.end_of(before))..self.end_of(number)
    }

    /// The two windows nearest to an instant: the number of the first one, its start and its end, and the end of the other.
    ///
    /// For a store on a server with a clock of its own: as long as that clock and the caller's differ by less than half a window, the
    /// server's is in one of the two.
    ///
    /// ```
    /// use portcullis::Timestamp;
    /// use portcullis::store::WindowTable;
    ///
    /// static STARTS: [Timestamp; 3] =
    ///     [Timestamp::from_micros(100), Timestamp::from_micros(200), Timestamp::from_micros(300)];
    /// let table = WindowTable::new("test", 1, &STARTS)?;
    /// assert_eq!(table.nearest_two(Timestamp::from_micros(280)), (2, [200, 300, (1 << 53) - 1].map(Timestamp::from_micros)));
    /// assert_eq!(table.nearest_two(Timestamp::from_micros(220)), (1, [100, 200, 300].map(Timestamp::from_micros)));
    /// # Ok::<(), portcullis::store::WindowTableError>(())
    /// ```
    pub fn nearest_two(&self, now: Timestamp) -> (u64, [Timestamp; 3]) {
        let number = self.number_at(now);
        let Range { start, end } = self.window(number);
        let is_late = end.saturating_since(now) < now.saturating_since(start);
        match number.checked_sub(1).filter(|_| !is_late) {
            Some(before) => (before, [self.window(before).start, start, end]),
            None => (number, [start, end, self.end_of(number.saturating_add(1))]),
        }
    }

    /// The end of a window: the start of the next one.
    #[inline]
    pub(crate) fn end_of(&self, number: u64) -> Timestamp {
        let Some(index) = number.saturating_add(1).checked_sub(self.first) else { return Timestamp::EPOCH };
        let start = usize::try_from(index).ok().and_then(|index| self.starts.get(index));
        start.copied().unwrap_or(Timestamp::MAX)
    }
}

impl PartialEq for WindowTable {
    /// Compares what decides: the numbers and the starts.
    fn eq(&self, other: &Self) -> bool {
        let is_same = core::ptr::eq(self.starts, other.starts);
        self.first == other.first && (is_same || self.starts == other.starts)
    }
}

impl Eq for WindowTable {}

impl Hash for WindowTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.first.hash(state);
        self.starts.len().hash(state);
        self.starts.first().hash(state);
        self.starts.last().hash(state);
    }
}

impl fmt::Debug for WindowTable {
    /// Prints the name alone: a table has thousands of starts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowTable").field(&self.name).finish()
    }
}

/// Why instants are not the windows of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowTableError {
    /// There are fewer than two starts, so that no window has a length.
    #[error("a table of {starts} starts has no window: there must be at least 2")]
    TooFewStarts {
        /// The number of starts.
        starts: usize,
    },
    /// A window begins before the one in front of it, or at the same instant.
    #[error(
        "the window that begins at {start} does not begin after the one in front of it: the starts must ascend"
    )]
    NotAscending {
        /// The start of that window.
        start: Timestamp,
    },
    /// A window has a number that is 0 or more than [`WindowTable::MAX_NUMBER`].
    #[error("{starts} windows cannot be numbered from {first}: numbers are from 1 to 4294967295")]
    NumberOutOfRange {
        /// The number of the first window.
        first: u64,
        /// The number of starts.
        starts: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    static STARTS: [Timestamp; 3] = [at(100), at(200), at(500)];
    static SWAPPED: [Timestamp; 3] = [at(100), at(500), at(500)];

    #[test]
    fn window_ends_where_the_next_one_begins() {
        let table = WindowTable::new("test", 7, &STARTS).unwrap();
        for (now, number) in [(0, 6), (99, 6), (100, 7), (199, 7), (200, 8), (499, 8), (500, 9), (1 << 52, 9)]
        {
            assert_eq!(table.number_at(at(now)), number, "{now}");
            let window = table.window(number);
            assert!(window.contains(&at(now)), "{now} is in {window:?}");
        }
        assert_eq!(table.window(6), at(0)..at(100));
        assert_eq!(table.window(9), at(500)..Timestamp::MAX);
        assert_eq!((table.window(0), table.window(5)), (at(0)..at(0), at(0)..at(0)));
        assert_eq!(table.window(u64::MAX), Timestamp::MAX..Timestamp::MAX);
        assert_eq!(table.longest(), Duration::from_micros(300));
        let from_one = WindowTable::new("test", 1, &STARTS).unwrap();
        assert_eq!((from_one.number_at(at(0)), from_one.window(0)), (0, at(0)..at(100)));
    }

    #[test]
    fn tables_without_windows_or_order_are_refused() {
        let error = |first, starts| WindowTable::new("test", first, starts).unwrap_err();
        assert_eq!(error(1, &STARTS[..1]), WindowTableError::TooFewStarts { starts: 1 });
        assert_eq!(error(1, &SWAPPED), WindowTableError::NotAscending { start: at(500) });
        for first in [0, WindowTable::MAX_NUMBER, u64::MAX] {
            assert_eq!(error(first, &STARTS), WindowTableError::NumberOutOfRange { first, starts: 3 });
        }
    }

    #[test]
    fn tables_are_equal_if_their_windows_are() {
        static SAME: [Timestamp; 3] = STARTS;
        let table = |name, first, starts| WindowTable::new(name, first, starts).unwrap();
        let one = table("one", 7, &STARTS);
        assert_eq!(one, table("other", 7, &SAME).made_from("2026a"));
        assert_ne!(one, table("one", 8, &STARTS));
        assert_ne!(one, table("one", 7, &STARTS[..2]));
        assert_eq!(alloc::format!("{one:?}"), "WindowTable(\"one\")");
    }
}
