//! The lines that are written at the end of a process.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::line::CountedLine;

/// The lines that may have counted events which no line has stated yet. It keeps none of them.
///
/// A limiter has such lines, and the [process](Self::of_process) has those of crates that know no limiter.
#[derive(Debug, Default)]
pub struct UnsaidLines(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    lines: Vec<Weak<CountedLine>>,
    /// The number of lines at which those that are gone are removed.
    prune_at: usize,
}

impl UnsaidLines {
    const fn new() -> Self {
        Self(Mutex::new(Listed { lines: Vec::new(), prune_at: 0 }))
    }

    /// Those of the process, which belong to no limiter. If one of several limiters ends, they are written early, and their counts go on: no
    /// event is stated twice or left out.
    pub fn of_process() -> &'static Self {
        static OF_PROCESS: UnsaidLines = UnsaidLines::new();
        &OF_PROCESS
    }

    /// Lists a line, once.
    pub(crate) fn add(&self, line: &Arc<CountedLine>) {
        if line.is_listed.load(Relaxed) || line.is_listed.swap(true, Relaxed) {
            return;
        }
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.lines.len() >= listed.prune_at {
            listed.lines.retain(|line| line.strong_count() > 0);
            listed.prune_at = listed.lines.len().saturating_mul(2).max(MIN_PRUNE);
        }
        listed.lines.push(Arc::downgrade(line));
    }

    /// Writes all that was counted and not stated.
    pub fn write(&self) {
        let listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = listed.lines.iter().filter_map(Weak::upgrade).collect();
        // A subscriber may do anything.
        drop(listed);
        for line in lines {
            line.write_unsaid();
        }
    }
}

const MIN_PRUNE: usize = 64;
