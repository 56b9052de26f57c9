//! Sorts the lines by their time, within bounds.

use std::collections::BTreeMap;
use std::mem;

use super::Line;

/// Keeps the lines of the last seconds until they can be handed out in the order of their times.
///
/// Servers write a line when a response ends, and some with the time when the request began. Lines with one time keep the order of
/// the log.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By the time and the number of the line.
    waiting: BTreeMap<(u64, u64), Line>,
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
        self.waiting.insert((added.micros, self.next_number), added);
        self.next_number += 1;
    }

    /// Whether no line that may still come is earlier than the next one.
    pub(super) fn has_next(&self) -> bool {
        let Some(((micros, _), _)) = self.waiting.first_key_value() else { return false };
        micros.saturating_add(self.window) < self.newest || self.waiting.len() >= MAX_WAITING
    }

    /// The next line by its time, if no line that may still come is earlier, or if `is_end`. The line before is overwritten
    /// from now on.
    ///
    /// A line that comes too late has the time of the line before.
    pub(super) fn next(&mut self, is_end: bool) -> Option<&Line> {
        if !is_end && !self.has_next() {
            return None;
        }
        let (_, mut line) = self.waiting.pop_first()?;
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
