//! The windows of a calendar.

use std::ops::Range;
use std::time::Duration;

use portcullis_core::{Timestamp, WindowTable};

/// From the last start that is not after an instant to the next one.
pub(super) fn window_at(table: &WindowTable, now: u64) -> Range<i128> {
    let micros = |start: &Timestamp| i128::from(start.as_micros());
    let is_over = |start: &&Timestamp| start.as_micros() <= now;
    let begin = table.starts().iter().rev().find(is_over).map_or(0, micros);
    let end = table.starts().iter().find(|start| !is_over(start)).map_or(i128::MAX, micros);
    begin..end
}

pub(super) fn shortest(table: &WindowTable) -> Duration {
    let lengths = table.starts().windows(2).map(|pair| pair[1].saturating_since(pair[0]));
    lengths.min().expect("a table has a window")
}
