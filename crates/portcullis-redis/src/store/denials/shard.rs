//! A part of the denial memory, behind one lock.

use std::ops::Range;

use super::SHARDS;
use super::entry::{Denial, Id};

/// Sets of a few denials each, allocated with the first denial.
#[derive(Debug)]
pub(super) struct Shard {
    entries: Vec<Option<Denial>>,
    /// For each group of keys, the instant of its latest correction: denials from requests sent up to then are ignored.
    corrected: [u64; STAMPS],
    /// The decisions that were denied by an entry.
    pub(super) hits: u64,
}

impl Default for Shard {
    fn default() -> Self {
        Self { entries: Vec::new(), corrected: [0; STAMPS], hits: 0 }
    }
}

impl Shard {
    /// Returns the denial of a key that `denies`, by their [order](Denial::precedence).
    pub(super) fn find(
        &self,
        sets: usize,
        hash: u64,
        id: Id,
        denies: impl Fn(&Denial) -> bool,
    ) -> Option<Denial> {
        let set = self.entries.get(set_range(sets, hash))?;
        let own = set.iter().flatten().filter(|denial| denial.id == id && denies(denial));
        own.max_by_key(|denial| denial.precedence()).copied()
    }

    /// The number of entries in a range that are valid now, and where the next range begins; `None` beyond the last entry.
    pub(super) fn count_valid(&self, range: Range<usize>, now: u64) -> Option<(u64, usize)> {
        let end = range.end.min(self.entries.len());
        let entries = self.entries.get(range.start..end).filter(|entries| !entries.is_empty())?;
        let valid = entries.iter().flatten().map(|denial| u64::from(now < denial.valid_until())).sum();
        Some((valid, end))
    }

    /// Returns whether the denial is remembered. Of the others of its key that hold, the one of the lowest cost is kept.
    pub(super) fn insert(&mut self, sets: usize, hash: u64, denial: Denial, now: u64) -> bool {
        if denial.sent <= self.corrected[stamp(hash)] {
            return false;
        }
        if self.entries.is_empty() {
            self.entries.resize(sets * WAYS, None);
        }
        let Some(set) = self.entries.get_mut(set_range(sets, hash)) else { return false };
        let mut kept: Option<Denial> = None;
        for entry in &mut *set {
            let Some(old) = entry.take_if(|old| old.id == denial.id) else { continue };
            let is_held = now < old.held_until() && !denial.covers(&old);
            if is_held && kept.is_none_or(|kept| old.cost < kept.cost) {
                kept = Some(old);
            }
        }
        // What answers no check now is replaced first.
        let rank = |entry: &Option<Denial>| {
            entry.as_ref().map_or((false, 0), |old| (now < old.valid_until(), old.held_until()))
        };
        for denial in kept.into_iter().chain([denial]) {
            if let Some(first) = set.iter_mut().min_by_key(|entry| rank(entry)) {
                *first = Some(denial);
            }
        }
        true
    }

    pub(super) fn forget(&mut self, sets: usize, hash: u64, id: Id, until: u64) {
        let stamp = &mut self.corrected[stamp(hash)];
        *stamp = until.max(*stamp);
        self.remove(sets, hash, |denial| denial.id == id);
    }

    /// Removes denials of a set.
    pub(super) fn remove(&mut self, sets: usize, hash: u64, is_removed: impl Fn(&Denial) -> bool) {
        for entry in self.entries.get_mut(set_range(sets, hash)).into_iter().flatten() {
            entry.take_if(|denial| is_removed(denial));
        }
    }
}

/// The indices of a set's entries.
fn set_range(sets: usize, hash: u64) -> Range<usize> {
    // The lowest bits choose the shard.
    let set = usize::try_from(hash / SHARDS as u64 % sets as u64).unwrap_or_default();
    set * WAYS..(set + 1) * WAYS
}

fn stamp(hash: u64) -> usize {
    usize::try_from(hash >> 32).unwrap_or_default() % STAMPS
}

/// The number of entries in a set.
pub(super) const WAYS: usize = 8;
/// The number of groups of keys with an instant of their latest correction, which makes all of them ask the server.
const STAMPS: usize = 64;
