//! Sorts the lines by their time, within bounds.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use super::Line;

/// Keeps the lines of the last seconds until they can be handed out in the order of their times.
///
/// Servers write a line when a response ends, and some with the time when the request began. Lines with one time keep the order of
/// the log.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Each line that came with no earlier time than all lines before it: nearly all.
    ordered: VecDeque<Line>,
    /// The other lines, by the time and the number of the line.
    displaced: BTreeMap<(u64, u64), Line>,
    /// The line that was handed out last.
    current: Line,
    /// Lines whose memory can be used again.
    spare: Vec<Line>,
    window: u64,
    newest: u64,
    next_number: u64,
    /// The lines that came too late.
    pub(super) late: u64,
}

impl Order {
    /// Waits for lines that are up to `window` microseconds late.
    pub(super) fn new(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    /// Adds a line. In its place is an earlier one, whose memory can be used again.
    pub(super) fn insert(&mut self, line: &mut Line) {
        self.newest = self.newest.max(line.micros);
        let added = mem::replace(line, self.spare.pop().unwrap_or_default());
        if self.ordered.back().is_none_or(|last| last.micros <= added.micros) {
            self.ordered.push_back(added);
        } else {
            self.displaced.insert((added.micros, self.next_number), added);
            self.next_number += 1;
        }
    }

    /// Whether no line that may still come is earlier than the next one.
    pub(super) fn has_next(&self) -> bool {
        let Some(micros) = self.next_micros() else { return false };
        let waiting = self.ordered.len() + self.displaced.len();
        micros.saturating_add(self.window) < self.newest || waiting >= MAX_WAITING
    }

    fn next_micros(&self) -> Option<u64> {
        let displaced = self.displaced.first_key_value().map(|((micros, _), _)| *micros);
        let ordered = self.ordered.front().map(|line| line.micros);
        displaced.into_iter().chain(ordered).min()
    }

    /// The next line by its time, if no line that may still come is earlier, or if `is_end`. The line before is overwritten
    /// from now on.
    ///
    /// A line that comes too late has the time of the line before.
    pub(super) fn next(&mut self, is_end: bool) -> Option<&Line> {
        if !is_end && !self.has_next() {
            return None;
        }
        // Of equal times, one that is displaced came later.
        let ordered = self.ordered.front().map(|line| line.micros);
        let displaced =
            self.displaced.first_entry().filter(|entry| ordered.is_none_or(|first| entry.key().0 < first));
        let mut line = match displaced {
            Some(entry) => entry.remove(),
            None => self.ordered.pop_front()?,
        };
        if line.micros < self.current.micros {
            self.late += 1;
            line.micros = self.current.micros;
        }
        self.spare.push(mem::replace(&mut self.current, line));
        Some(&self.current)
    }
}

/// The lines that are kept at most, with at most 64 KiB each; usually a few hundred bytes.
const MAX_WAITING: usize = 16_384;
