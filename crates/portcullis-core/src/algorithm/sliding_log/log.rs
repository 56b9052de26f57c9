//! The units of a log: runs of equal stamps.

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};
use core::iter::repeat_n;

/// The units of a sliding window log, in microseconds since the Unix epoch, oldest first. Never empty.
///
/// Units of one instant are one run, whatever their number: a log takes 16 bytes for each instant at which it was charged,
/// and not for each unit.
#[derive(Clone, Debug, Default)]
pub struct Log {
    runs: VecDeque<Run>,
}

/// Units that were charged at one instant.
#[derive(Clone, Copy, Debug)]
struct Run {
    stamp: u64,
    units: u32,
    /// The units of all runs up to this one, modulo 2^32: the difference of two is the number of units between them, so
    /// that no sum over the runs is needed. At most twice [`MAX_LIMIT`](super::SlidingLog::MAX_LIMIT) count at a time.
    end: u32,
}

/// What a snapshot on a log is computed from. Stamps are microseconds since the Unix epoch, as they count at the instant of
/// the view; each leaves the log one period later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogView {
    /// How many units count.
    pub used: u64,
    /// The stamp whose leaving makes more remain.
    pub next: u64,
    /// The newest stamp.
    pub newest: u64,
    /// The stamp whose leaving lets the cost in question fit; 0 if it fits already, or never.
    pub fits: u64,
}

impl Log {
    /// The units of these stamps, in any order: for a store that keeps states in a form of its own.
    ///
    /// ```
    /// use portcullis_core::Log;
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
            log.append(stamp, 1, u32::MAX);
        }
        log
    }

    /// A stamp per unit, in microseconds since the Unix epoch, oldest first.
    pub fn stamps(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs().flat_map(|(stamp, units)| repeat_n(stamp, units as usize))
    }

    /// The stamps in microseconds since the Unix epoch, oldest first, each with the number of units that have it.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (u64, u32)> + '_ {
        self.runs.iter().map(|run| (run.stamp, run.units))
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.runs.back().map(|run| run.stamp)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        bytes(self.runs.capacity())
    }

    /// What counts at `now`: time is held still at a newest stamp that is at most one period ahead, and a log that is
    /// farther ahead is lowered until that stamp is now.
    pub(super) fn living(&self, now: u64, period: u64) -> Option<Living<'_>> {
        let newest = self.newest()?;
        let ahead = newest.saturating_sub(now);
        let lowered = if ahead > period { ahead } else { 0 };
        let time = now.max(newest.saturating_sub(lowered));
        let dead = |run: &Run| run.stamp.saturating_sub(lowered).saturating_add(period) <= time;
        let first = self.runs.partition_point(dead);
        let oldest = self.runs.get(first)?;
        let before = oldest.end.wrapping_sub(oldest.units);
        Some(Living { runs: &self.runs, trim: Trim { first, lowered }, before })
    }

    pub(super) fn trim(&mut self, Trim { first, lowered }: Trim) {
        self.runs.drain(..first);
        if lowered == 0 {
            return;
        }
        for run in &mut self.runs {
            run.stamp = run.stamp.saturating_sub(lowered);
        }
        // Below zero there is no time: what would lie there has become one instant.
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

    /// Adds units at `now`, or at the newest stamp if that is later: time stands still there. With memory for at most
    /// `most` runs, unless more are there already.
    pub(super) fn append(&mut self, now: u64, units: u32, most: u32) {
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

    /// The bytes by which the memory of the log grows if one more run is added to those from `first` on.
    pub(super) fn growth(&self, first: usize, most: u32) -> usize {
        let (held, kept) = (self.runs.capacity(), self.runs.len().saturating_sub(first));
        bytes(if kept < held { 0 } else { larger(held, most).saturating_sub(held) })
    }

    /// Makes room for one more run, by doubling the memory; gives memory back if little of it is used, so that a burst
    /// of the past does not keep it for as long as its key is in use.
    fn resize(&mut self, most: u32) {
        let (held, len) = (self.runs.capacity(), self.runs.len());
        if len == held {
            self.runs.reserve_exact(larger(held, most).saturating_sub(len));
        } else if held > KEPT && len < held / 8 {
            self.runs.shrink_to(len.saturating_mul(2).max(KEPT));
        }
    }

    /// Joins runs that lie close together, so that about half of them remain.
    ///
    /// A joined run has the stamp of its newest unit. So none leaves earlier than it would have, and none later by more
    /// than four periods divided by the number of runs, however often this happens: a run never grows beyond that distance
    /// from the run before it, after which all its units were charged, and the oldest one stays as it is.
    pub(super) fn coarsen(&mut self, period: u64) {
        let Some(grain) = period.saturating_mul(4).checked_div(self.runs.len() as u64) else { return };
        let grain = grain.saturating_add(1);
        // The last run that is kept so far, and the stamp of the one before it.
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

    /// Removes up to `units` of those at `index`.
    pub(super) fn remove(&mut self, index: usize, units: u32) {
        let Some(held) = self.runs.get(index).map(|run| run.units) else { return };
        let removed = units.min(held);
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

/// Logs are equal if their units are, wherever their counts began.
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

/// What has to go from a log, and by how much the rest is ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trim {
    /// Runs that have left.
    pub(super) first: usize,
    lowered: u64,
}

/// The part of a log that counts. Never empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Living<'s> {
    runs: &'s VecDeque<Run>,
    trim: Trim,
    /// The end of the runs that have left.
    before: u32,
}

impl Living<'_> {
    pub(super) fn trim(&self) -> Trim {
        self.trim
    }

    pub(super) fn is_astray(&self) -> bool {
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

    /// Where, among the runs that count, the one of this instant is.
    pub(super) fn run(&self, instant: u64) -> Option<usize> {
        let instant = instant.saturating_add(self.trim.lowered);
        let index = self.runs.binary_search_by_key(&instant, |run| run.stamp).ok()?;
        index.checked_sub(self.trim.first)
    }
}

/// The room for runs after room for `held` of them: twice as many, but no more than `most` where that is enough.
fn larger(held: usize, most: u32) -> usize {
    let (most, doubled) = (most as usize, held.saturating_mul(2).max(FEWEST));
    if held < most { doubled.min(most.max(FEWEST)) } else { doubled }
}

const fn bytes(runs: usize) -> usize {
    runs.saturating_mul(size_of::<Run>())
}

/// The least room for runs: fewer cannot be [joined](Log::coarsen) to make room for another.
const FEWEST: usize = 4;
/// The room for runs that a log keeps even if it is empty: a kilobyte.
const KEPT: usize = 64;

#[cfg(test)]
mod tests;
