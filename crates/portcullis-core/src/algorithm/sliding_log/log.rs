//! The stamps.

use alloc::collections::VecDeque;
use core::iter::repeat_n;
use core::ops::Range;

/// The units of a sliding window log: a stamp each, in microseconds since the Unix epoch, oldest first. Never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    stamps: VecDeque<u64>,
}

/// What a report on a log is computed from. Stamps are microseconds since the Unix epoch, as they count at the instant of
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
    /// ```
    pub fn new(stamps: impl IntoIterator<Item = u64>) -> Self {
        let mut stamps: VecDeque<u64> = stamps.into_iter().collect();
        stamps.make_contiguous().sort_unstable();
        Self { stamps }
    }

    /// A stamp per unit, in microseconds since the Unix epoch, oldest first.
    pub fn stamps(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.stamps.iter().copied()
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.stamps.back().copied()
    }

    /// What counts at `now`: time is held still at a newest stamp that is at most one period ahead, and a log that is
    /// farther ahead is lowered until that stamp is now.
    pub(super) fn living(&self, now: u64, period: u64) -> Option<Living<'_>> {
        let newest = self.newest()?;
        let ahead = newest.saturating_sub(now);
        let lowered = if ahead > period { ahead } else { 0 };
        let time = now.max(newest.saturating_sub(lowered));
        let dead = |stamp: &u64| stamp.saturating_sub(lowered).saturating_add(period) <= time;
        let first = self.stamps.partition_point(dead);
        (first < self.stamps.len()).then_some(Living { stamps: &self.stamps, trim: Trim { first, lowered } })
    }

    pub(super) fn trim(&mut self, Trim { first, lowered }: Trim) {
        self.stamps.drain(..first);
        if lowered > 0 {
            for stamp in &mut self.stamps {
                *stamp = stamp.saturating_sub(lowered);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.stamps.clear();
    }

    /// Time stands still at the newest stamp.
    pub(super) fn append(&mut self, now: u64, units: u32) {
        let stamp = self.newest().map_or(now, |newest| newest.max(now));
        self.stamps.extend(repeat_n(stamp, units as usize));
    }

    pub(super) fn remove(&mut self, run: Range<usize>) {
        self.stamps.drain(run);
    }
}

/// What has to go from a log, and by how much the rest is ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trim {
    first: usize,
    lowered: u64,
}

/// The part of a log that counts. Never empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Living<'s> {
    stamps: &'s VecDeque<u64>,
    trim: Trim,
}

impl Living<'_> {
    pub(super) fn trim(&self) -> Trim {
        self.trim
    }

    pub(super) fn is_astray(&self) -> bool {
        self.trim.lowered > 0
    }

    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.stamps.len().saturating_sub(self.trim.first)).unwrap_or(u64::MAX)
    }

    pub(super) fn stamp(&self, index: u64) -> Option<u64> {
        let index = usize::try_from(index).ok()?.checked_add(self.trim.first)?;
        self.stamps.get(index).map(|stamp| stamp.saturating_sub(self.trim.lowered))
    }

    pub(super) fn newest(&self) -> u64 {
        self.stamps.back().map_or(0, |stamp| stamp.saturating_sub(self.trim.lowered))
    }

    /// Where, among those that count, up to `units` stamps of this instant are.
    pub(super) fn run(&self, instant: u64, units: u32) -> Range<usize> {
        let instant = instant.saturating_add(self.trim.lowered);
        let begin = self.stamps.partition_point(|stamp| *stamp < instant).max(self.trim.first);
        let end = self.stamps.partition_point(|stamp| *stamp <= instant).max(begin);
        let begin = begin.saturating_sub(self.trim.first);
        let end = end.saturating_sub(self.trim.first).min(begin.saturating_add(units as usize));
        begin..end
    }
}
