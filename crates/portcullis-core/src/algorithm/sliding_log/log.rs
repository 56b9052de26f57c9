//! The units of a log, stored as runs of equal stamps.

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};
use core::iter::repeat_n;

/// The units of a sliding window log, in microseconds since the Unix epoch, oldest first. Never empty.
///
/// All units of one instant form one run: a log takes 16 bytes per instant at which it was charged, not per unit.
#[derive(Clone, Debug, Default)]
pub struct Log {
    runs: VecDeque<Run>,
}

/// Units that were charged at one instant.
#[derive(Clone, Copy, Debug)]
struct Run {
    stamp: u64,
    units: u32,
    /// The units of all runs up to and including this one, modulo 2^32. The difference of two values is the number of units
    /// between them, so no sum over the runs is needed. At most twice [`MAX_LIMIT`](super::SlidingLog::MAX_LIMIT) units
    /// count at a time.
    end: u32,
}

/// The input of a log's snapshot. Stamps are microseconds since the Unix epoch, after the repair of a clock step; a unit
/// expires one period after its stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
// Exhaustive: stores build it from what their server replies.
pub struct LogView {
    /// The number of units that count.
    pub used: u64,
    /// The stamp whose expiry makes more units available.
    pub next: u64,
    /// The newest stamp.
    pub newest: u64,
    /// The stamp after whose expiry the cost fits; 0 if it fits already, or never.
    pub fits: u64,
}

impl Log {
    /// A log with one unit per stamp, in any order. For a store that keeps states in another format.
    ///
    /// ```
    /// use portcullis_core::algorithm::Log;
    ///
    /// let log = Log::new([30, 10, 10]);
    /// assert_eq!(log.stamps().collect::<Vec<_>>(), [10, 10, 30]);
    /// assert_eq!(log.runs().collect::<Vec<_>>(), [(10, 2), (30, 1)]);
    /// ```
    pub fn new(stamps: impl IntoIterator<Item = u64>) -> Self {
        let mut stamps: VecDeque<u64> = stamps.into_iter().collect();
        stamps.make_contiguous().sort_unstable();
        let mut log = Self::default();
        for stamp in stamps {
            log.append(stamp, 1, u64::MAX);
        }
        log
    }

    /// A log with these runs: at least one unit each, stamps in ascending order, at most twice the longest log in all.
    pub(in crate::algorithm) fn from_runs(runs: impl ExactSizeIterator<Item = (u64, u64)>) -> Self {
        let mut log = Self { runs: VecDeque::with_capacity(runs.len()) };
        for (stamp, units) in runs {
            log.append(stamp, units, u64::MAX);
        }
        log
    }

    /// The stamps, one per unit, in microseconds since the Unix epoch, oldest first.
    pub fn stamps(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs().flat_map(|(stamp, units)| repeat_n(stamp, usize::try_from(units).unwrap_or(usize::MAX)))
    }

    /// The stamps in microseconds since the Unix epoch, oldest first, each with its number of units.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| (run.stamp, run.units.into()))
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.runs.back().map(|run| run.stamp)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        bytes(self.runs.capacity())
    }

    /// The units that count at `now`. If the newest stamp is at most one period ahead, time is frozen there. If it is farther
    /// ahead, all stamps are lowered until the newest one is `now`.
    pub(super) fn live(&self, now: u64, period: u64) -> Option<LiveRuns<'_>> {
        let newest = self.newest()?;
        let ahead = newest.saturating_sub(now);
        let lowered = if ahead > period { ahead } else { 0 };
        let time = now.max(newest.saturating_sub(lowered));
        let expired = |run: &Run| run.stamp.saturating_sub(lowered).saturating_add(period) <= time;
        let first = self.runs.partition_point(expired);
        let oldest = self.runs.get(first)?;
        let before = oldest.end.wrapping_sub(oldest.units);
        Some(LiveRuns { runs: &self.runs, trim: Trim { first, lowered }, before })
    }

    pub(super) fn trim(&mut self, Trim { first, lowered }: Trim) {
        self.runs.drain(..first);
        if lowered == 0 {
            return;
        }
        for run in &mut self.runs {
            run.stamp = run.stamp.saturating_sub(lowered);
        }
        // Stamps saturate at zero: runs that would lie below it have become one instant.
        while let (Some(oldest), Some(next)) = (self.runs.front().copied(), self.runs.get_mut(1))
            && oldest.stamp == next.stamp
        {
            next.units = next.units.saturating_add(oldest.units);
            self.runs.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }

    /// Adds units at `now`, or at the newest stamp if that is later, because time is frozen there. Allocates memory for at
    /// most `most` runs, unless there are more already.
    pub(super) fn append(&mut self, now: u64, units: u64, most: u64) {
        let units = stored(units);
        let newest = self.runs.back_mut();
        let end = newest.as_ref().map_or(0, |run| run.end).wrapping_add(units);
        if let Some(run) = newest.filter(|run| run.stamp >= now) {
            run.units = run.units.saturating_add(units);
            run.end = end;
        } else if units > 0 {
            self.resize(most);
            self.runs.push_back(Run { stamp: now, units, end });
        }
    }

    /// The number of bytes by which the memory of the log grows if a run is added to those from `first` on.
    pub(super) fn growth(&self, first: usize, most: u64) -> usize {
        let (held, kept) = (self.runs.capacity(), self.runs.len().saturating_sub(first));
        bytes(if kept < held { 0 } else { larger_capacity(held, most).saturating_sub(held) })
    }

    /// Reserves memory for one more run by doubling it. Frees memory if little of it is used: otherwise the memory of a past
    /// burst would be kept as long as its key is in use.
    fn resize(&mut self, most: u64) {
        let (held, len) = (self.runs.capacity(), self.runs.len());
        if len == held {
            self.runs.reserve_exact(larger_capacity(held, most).saturating_sub(len));
        } else if held > RETAINED_CAPACITY && len < held / 8 {
            self.runs.shrink_to(len.saturating_mul(2).max(RETAINED_CAPACITY));
        }
    }

    /// Merges runs that lie close together, so that about half of them remain.
    ///
    /// A merged run has the stamp of its newest unit. So no unit expires earlier than it would have, and none later by more
    /// than four periods divided by the number of runs, even after several merges: a merged run ends within that distance of
    /// the run before it, after which all its units were charged, and the oldest run is not changed.
    pub(super) fn coarsen(&mut self, period: u64) {
        let Some(grain) = period.saturating_mul(4).checked_div(self.runs.len() as u64) else { return };
        let grain = grain.saturating_add(1);
        // The index of the last run that is kept so far, and the stamp of the one before it.
        let (mut kept, mut before) = (0_usize, 0);
        for index in 1..self.runs.len() {
            let (last, run) = (self.runs[kept], self.runs[index]);
            if kept > 0 && run.stamp.saturating_sub(before) <= grain {
                self.runs[kept] = Run { units: last.units.saturating_add(run.units), ..run };
            } else {
                before = last.stamp;
                kept = kept.saturating_add(1);
                self.runs[kept] = run;
            }
        }
        self.runs.truncate(kept.saturating_add(1));
    }

    /// Removes up to `units` units from the run at `index`.
    pub(super) fn remove(&mut self, index: usize, units: u64) {
        let Some(held) = self.runs.get(index).map(|run| run.units) else { return };
        let removed = stored(units).min(held);
        for run in self.runs.range_mut(index..) {
            run.end = run.end.wrapping_sub(removed);
        }
        if removed == held {
            self.runs.remove(index);
        } else if let Some(run) = self.runs.get_mut(index) {
            run.units = held.saturating_sub(removed);
        }
    }
}

/// Logs are equal if their stamps are: the running counts of units may differ.
impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.runs().eq(other.runs())
    }
}

impl Eq for Log {}

impl Hash for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.runs.len().hash(state);
        self.runs().for_each(|run| run.hash(state));
    }
}

/// The expired runs of a log, and the time by which the stamps of the others have to be lowered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trim {
    /// The number of expired runs.
    pub(super) first: usize,
    lowered: u64,
}

/// The runs of a log that count. Never empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRuns<'s> {
    runs: &'s VecDeque<Run>,
    trim: Trim,
    /// The [`end`](Run::end) of the last expired run.
    before: u32,
}

impl LiveRuns<'_> {
    pub(super) fn trim(&self) -> Trim {
        self.trim
    }

    pub(super) fn clock_stepped(&self) -> bool {
        self.trim.lowered > 0
    }

    /// The number of units.
    pub(super) fn len(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.end.wrapping_sub(self.before)).into()
    }

    /// The stamp of the unit at `index`, 0 being the oldest.
    pub(super) fn stamp(&self, index: u64) -> Option<u64> {
        let begin = self.runs.front().map_or(0, |run| run.end.wrapping_sub(run.units));
        let index = u64::from(self.before.wrapping_sub(begin)).saturating_add(index);
        let run = self.runs.partition_point(|run| u64::from(run.end.wrapping_sub(begin)) <= index);
        self.runs.get(run).map(|run| run.stamp.saturating_sub(self.trim.lowered))
    }

    pub(super) fn newest(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.stamp.saturating_sub(self.trim.lowered))
    }

    /// The index of the run of this instant among the runs that count, if no stamp has to be lowered.
    pub(super) fn run(&self, instant: u64) -> Option<usize> {
        let index = self.runs.binary_search_by_key(&instant, |run| run.stamp).ok()?;
        index.checked_sub(self.trim.first)
    }
}

/// The next capacity after `held` runs: twice as many, but no more than `most` if that is enough.
fn larger_capacity(held: usize, most: u64) -> usize {
    let (most, doubled) =
        (usize::try_from(most).unwrap_or(usize::MAX), held.saturating_mul(2).max(MIN_CAPACITY));
    if held < most { doubled.min(most.max(MIN_CAPACITY)) } else { doubled }
}

/// A number of units as a run stores it: a log has at most twice [`MAX_LIMIT`](super::SlidingLog::MAX_LIMIT) units.
fn stored(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

const fn bytes(runs: usize) -> usize {
    runs.saturating_mul(size_of::<Run>())
}

/// The lowest capacity: fewer runs cannot be [merged](Log::coarsen) to free space for another one.
const MIN_CAPACITY: usize = 4;
/// The capacity that a log keeps even if it is empty: one kibibyte.
const RETAINED_CAPACITY: usize = 64;

#[cfg(test)]
mod tests;
