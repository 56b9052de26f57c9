//! A part of the memory, behind one lock.

use super::SHARDS;
use super::entry::{Denial, Id};

/// Sets of a few denials each, made when the first one comes.
#[derive(Debug)]
pub(super) struct Shard {
    places: Vec<Option<Denial>>,
    /// Until when what was asked about some keys is not remembered, because they were corrected since.
    corrected: [u64; STAMPS],
}

impl Default for Shard {
    fn default() -> Self {
        Self { places: Vec::new(), corrected: [0; STAMPS] }
    }
}

impl Shard {
    /// A denial that holds now.
    pub(super) fn find(&mut self, sets: usize, hash: u64, id: Id, now: u64) -> Option<Denial> {
        let set = self.places.get_mut(place(sets, hash))?;
        set.iter().flatten().find(|denial| denial.id() == id && now < denial.valid_until()).copied()
    }

    /// Returns whether the denial is remembered.
    pub(super) fn insert(&mut self, sets: usize, hash: u64, denial: Denial, now: u64) -> bool {
        if denial.asked() <= self.corrected[stamp(hash)] {
            return false;
        }
        if self.places.is_empty() {
            self.places.resize(sets * WAYS, None);
        }
        let Some(set) = self.places.get_mut(place(sets, hash)) else { return false };
        if let Some(same) = set.iter_mut().flatten().find(|other| other.id() == denial.id()) {
            // A denial of less says more.
            if now >= same.valid_until() || denial.cost() <= same.cost() {
                *same = denial;
            }
            return true;
        }
        let ends = |place: &Option<Denial>| place.as_ref().map_or(0, Denial::valid_until);
        if let Some(first) = set.iter_mut().min_by_key(|place| ends(place)) {
            *first = Some(denial);
        }
        true
    }

    pub(super) fn forget(&mut self, sets: usize, hash: u64, id: Id, until: u64) {
        let stamp = &mut self.corrected[stamp(hash)];
        *stamp = until.max(*stamp);
        for place in self.places.get_mut(place(sets, hash)).into_iter().flatten() {
            if place.as_ref().is_some_and(|denial| denial.id() == id) {
                *place = None;
            }
        }
    }
}

/// The places of a set.
fn place(sets: usize, hash: u64) -> std::ops::Range<usize> {
    // The lowest bits have chosen the shard.
    let set = usize::try_from(hash / SHARDS as u64 % sets as u64).unwrap_or_default();
    set * WAYS..(set + 1) * WAYS
}

fn stamp(hash: u64) -> usize {
    usize::try_from(hash >> 32).unwrap_or_default() % STAMPS
}

/// How many denials there is room for before one is replaced.
pub(super) const WAYS: usize = 8;
/// How many groups of keys are told apart by when they were corrected. A correction of one makes the others of its group ask
/// the server once more.
const STAMPS: usize = 64;
