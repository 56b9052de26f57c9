//! Sorts the lines by their time, within bounds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Line;

/// Keeps the lines of the last seconds until they can be handed out in the order of their times.
///
/// Servers write a line when a response ends, and some with the time when the request began. Lines with one time keep the order of
/// the log.
#[derive(Debug)]
pub(super) struct Order {
    /// The time, the number of the line, and its place in `slots`.
    waiting: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Line>,
    free: Vec<usize>,
    window: u64,
    newest: u64,
    next_number: u64,
    last: u64,
    late: u64,
}

impl Order {
    /// Waits for lines that are up to `window` microseconds late.
    pub(super) fn new(window: u64) -> Self {
        Self {
            waiting: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            window,
            newest: 0,
            next_number: 0,
            last: 0,
            late: 0,
        }
    }

    /// Adds a line. In its place is an earlier one, whose memory can be used again.
    pub(super) fn insert(&mut self, line: &mut Line) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Line::new());
            self.slots.len() - 1
        });
        self.newest = self.newest.max(line.micros);
        self.waiting.push(Reverse((line.micros, self.next_number, index)));
        self.next_number += 1;
        std::mem::swap(&mut self.slots[index], line);
    }

    /// Whether no line that may still come is earlier than the next one.
    pub(super) fn has_next(&self) -> bool {
        let Some(Reverse((micros, ..))) = self.waiting.peek() else { return false };
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
        let Reverse((micros, _, index)) = self.waiting.pop()?;
        self.free.push(index);
        if micros < self.last {
            self.late += 1;
            self.slots[index].micros = self.last;
        } else {
            self.last = micros;
        }
        Some(&self.slots[index])
    }

    /// The lines that came too late.
    pub(super) fn late(&self) -> u64 {
        self.late
    }
}

/// The lines that are kept at most, with at most 64 KiB each; usually a few hundred bytes.
const MAX_WAITING: usize = 16_384;
