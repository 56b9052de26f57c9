//! Locks, and the places that states live in.

use std::sync::PoisonError;

use portcullis_core::{Key, Policy, State, Timestamp};
use smallvec::SmallVec;

use crate::sync::{Mutex, MutexGuard};
use crate::table::Table;

/// The tables of a store, each behind its own lock, and one for the keys that find no room.
#[derive(Debug)]
pub(crate) struct Shards {
    tables: Box<[Mutex<Table>]>,
    /// Locked after all others.
    overflow: Mutex<Table>,
}

impl Shards {
    /// `count` is a power of two.
    pub(crate) fn new(count: usize, capacity: usize) -> Self {
        let each = capacity.div_ceil(count);
        let tables = (0..count).map(|_| Mutex::new(Table::new(each))).collect();
        Self { tables, overflow: Mutex::new(Table::new(MAX_OVERFLOWING_POLICIES)) }
    }

    /// Locks the shards of all `ids`, in one order so that no two calls wait for each other.
    pub(crate) fn lock(&self, ids: impl Iterator<Item = u128>) -> Locked<'_> {
        let mut numbers: SmallVec<[usize; 2]> = ids.map(|id| self.number(id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let begin = |number| {
            let mut table = lock(&self.tables[number]);
            table.begin();
            (number, table)
        };
        let tables = numbers.into_iter().map(begin).collect();
        Locked { shards: self, tables, overflow: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(|table| lock(table).len()).sum()
    }

    pub(crate) fn overflowing(&self) -> usize {
        lock(&self.overflow).len()
    }

    /// The upper half of the id picks the shard, the lower half is its hash there.
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
    fn number(&self, id: u128) -> usize {
        (id >> 64) as usize & (self.tables.len() - 1)
    }
}

/// The shards of one decision.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    shards: &'a Shards,
    tables: SmallVec<[(usize, MutexGuard<'a, Table>); 2]>,
    overflow: Option<MutexGuard<'a, Table>>,
}

/// Where the state of a key under a policy lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Own(u128),
    /// With all other keys of the policy that found no room.
    Overflow(u128),
}

/// More policies than this overflow at once.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl Locked<'_> {
    /// Sweeps a little, then finds the place of a key that was locked.
    pub(crate) fn place(
        &mut self,
        policy: &Policy,
        key: Key,
        now: Timestamp,
        swept: usize,
    ) -> Result<Place, NoRoom> {
        let id = id(policy, key);
        let table = self.table(id);
        table.sweep(now, swept);
        if table.holds(id, now) {
            return Ok(Place::Own(id));
        }
        let overflow = self.overflow.get_or_insert_with(|| {
            let mut overflow = lock(&self.shards.overflow);
            overflow.begin();
            overflow
        });
        if overflow.holds(policy.digest(), now) { Ok(Place::Overflow(policy.digest())) } else { Err(NoRoom) }
    }

    pub(crate) fn get(&mut self, place: Place) -> Option<&State> {
        match place {
            Place::Own(id) => self.table(id).get(id),
            Place::Overflow(id) => self.overflow.as_ref().and_then(|table| table.get(id)),
        }
    }

    /// Changes a state in place, where `change` returns whether it did.
    pub(crate) fn change(
        &mut self,
        place: Place,
        policy: &Policy,
        change: impl FnOnce(&mut Option<State>) -> bool,
    ) {
        match place {
            Place::Own(id) => self.table(id).change(id, policy.strategy(), change),
            Place::Overflow(id) => {
                if let Some(table) = &mut self.overflow {
                    table.change(id, policy.strategy(), change);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u128) {
        self.table(id).remove(id);
    }

    fn table(&mut self, id: u128) -> &mut Table {
        let number = self.shards.number(id);
        let found = self.tables.iter_mut().find(|(locked, _)| *locked == number);
        &mut found.expect("every shard of a decision is locked before it is used").1
    }
}

/// What identifies the state of a key under a policy.
pub(crate) fn id(policy: &Policy, key: Key) -> u128 {
    key.fingerprint() ^ policy.digest()
}

/// A panic while a lock is held leaves whole entries behind: they are replaced, never half written.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

const MAX_OVERFLOWING_POLICIES: usize = 1_024;
